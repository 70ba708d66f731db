//go:build !invariants

package memory

import "unsafe"

func poison(unsafe.Pointer, int64) {}
