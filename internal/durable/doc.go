// Package durable writes files that are there whole or not at all, whatever happens on the way: an error, a full disk, a
// killed process, a machine that loses power.
//
// The new content goes to a temporary file in the same folder, which is synced and then renamed over the old one; syncing
// the folder makes the new name last. At every instant the name leads to the old content or to the new, whole. What a
// killed process left behind, a temporary file, the next Write to the same path removes.
//
// [FS] is what this asks of the system. durabletest has one that fails on purpose.
package durable
