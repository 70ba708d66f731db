// Package data reads data sets and cuts them into batches.
//
// [ReadIDX] and [OpenIDX] read the IDX format of the MNIST files, plain or compressed. [LoadImages] reads a folder that
// holds such a data set: MNIST, Fashion-MNIST, KMNIST and others come in the same four files. [Shuffle] gives the order
// of an epoch, and [Images.Batch] writes the images of a stretch of that order into slices that the caller owns.
//
// What this package reads lies on Go's heap, as bytes, and is not counted: it is there before training starts and stays
// as it is. What training sees of it, the batch, lies in tensors of the caller, and is.
//
// Laws:
//
//   - A file never costs more memory than it holds, whatever its header says.
//   - The order of an epoch is a function of (n, seed, epoch) alone: the same on every machine, with no state to save.
//   - An error names the file, what was found, what was wanted, and the remedy where there is one.
package data
