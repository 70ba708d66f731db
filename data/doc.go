// Package data reads data sets and makes batches of them.
//
// A [Dataset] says what its items are and writes one of them to a given place. A [Loader] makes batches of it: in order or
// shuffled, read by workers ahead of their use, in memory that is taken when an epoch opens and used again and again.
// [Images] and [Sequences] are ready data sets; a few lines make another.
//
// [ReadIDX] and [OpenIDX] read the IDX format of the MNIST files, plain or compressed. [LoadImages] reads a folder that
// holds such a data set: MNIST, Fashion-MNIST, KMNIST and others come in the same four files. [LoadText] reads text.
//
// What a data set holds lies on Go's heap, as bytes, and is not counted: it is there before training starts and stays as
// it is. What training sees of it, the batches, comes from the device, and is.
//
// Laws; the tests cite them by number:
//
//	D1  A file never costs more memory than it holds, whatever its header says.
//	D2  The order of an epoch is a function of (n, seed, epoch), the random numbers of an item of (seed, epoch, index): the
//	    same on every machine, with no state to save.
//	D3  What a batch holds does not depend on workers, prefetching, timing or interruptions.
//	D4  An epoch takes its memory when it opens and gives it back when it closes, however it closes; in between it takes
//	    none. How much follows from the configuration.
//	D5  When an epoch has closed, none of its goroutines is left.
//	D6  The state of a loader is where its user is, not how far it has read ahead.
//	D7  An error of an item is the error of its batch, after all batches before it; of several in one batch it is the first
//	    item's. errors.Is and errors.As find it. A panic in a worker is such an error.
//	D8  An error names the file or the item, what was found, what was wanted, and the remedy where there is one.
package data
