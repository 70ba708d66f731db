// Package offload keeps what a training step does not need at the moment away from the device: activations between forward
// and backward, the optimizer's moments between steps, parameters and gradients between their uses.
//
// A [Store] has two tiers behind it. Host is a second counted device, what a GPU's user calls CPU memory. Disk is files
// in a folder of the store's own. It fits three seams, none of which this package imports:
//
//	s.WithSaver(store)                     autograd.Saver: activations
//	AdamWConfig{Store: store}              optim.StateStore: moments, read and written tile by tile
//	param.SetHome(store)                   autograd.Home: a parameter and its gradient
//
// How bytes move. A disk transfer passes through a ring of equal blocks that the store takes from the device, counted as
// Staging, when it opens. What is written is copied into the ring and leaves from there, so that the source may be freed
// or overwritten at once. What is read ahead waits in the ring for whoever asks for it. Blocks that are small lie side by side
// in the file and in the ring, and up to 128 KiB of them move as one, since a disk takes as long to begin as to move that
// much: what is written one behind the other leaves together, what is read brings its neighbours. They stay until the ring
// needs the room. Goroutines move them; they touch no tensor, no device and no counter. Hence these laws, which the tests hold:
//
//	O1  Only the session's goroutine allocates and frees, at fixed calls: a dry run predicts every byte, and a slow disk
//	    costs time, never bytes.
//	O2  What comes back is what went in, bit for bit: each block has a checksum (CRC-32C), and a file that is short,
//	    truncated or changed is an error that names it.
//	O3  A transfer that fails is reported to whoever asks for those bytes next; a store has no other way to lose data.
//	O4  Files are in a folder that is unique to the store, are never opened again, and go with Close or with the process.
//	O5  The system's page cache keeps nothing of the files: they are written past it (O_DIRECT) or dropped from it, so
//	    that the process and its control group really shrink.
//
// A Store belongs to the goroutine of its device's session.
package offload
