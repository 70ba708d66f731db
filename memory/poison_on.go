//go:build invariants

package memory

import "unsafe"

// poison fills memory that nobody may read with 0xFF, which is NaN in every float type: who reads before writing, or
// after the end, computes NaN.
func poison(p unsafe.Pointer, n int64) {
	if n == 0 {
		return
	}
	mem := unsafe.Slice((*byte)(p), n)
	mem[0] = 0xFF
	for i := 1; i < len(mem); i *= 2 {
		copy(mem[i:], mem[:i])
	}
}
