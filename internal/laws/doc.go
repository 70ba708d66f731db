// Package laws holds tests only: the laws of docs/design.md over whole training steps of a small network that uses every
// rule of the engine (tied embedding, views, in-place addition, dropout, hidden outputs, broadcasting, a window of
// micro-batches, AdamW). The laws of single ops are tested in package ops, of single packages in theirs.
package laws
