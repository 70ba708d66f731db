//go:build amd64 && !purego

package kernel

import "unsafe"

// What the AVX2 versions of row routines share. Such a version is a function named like the plain one with Fast after it.
// It says whether it did the work, which it does for float32 on a processor that has AVX2. Slices are cut to one length
// before assembly gets where they begin, so that a wrong length is an index out of range here too; assembly touches n
// elements of each and not one byte more.

// runsAVX2 says whether a routine over n elements of T runs its AVX2 version.
func runsAVX2[T any](n int) bool {
	var zero T
	_, ok := any(zero).(float32)
	return ok && useAVX2 && n > 0
}

// worthAVX2 is runsAVX2 for a routine whose plain version is as fast on fewer than eight elements.
func worthAVX2[T any](n int) bool { return n >= 8 && runsAVX2[T](n) }

// begin is where x begins: of float32, as runsAVX2 says. It is nil if x is.
func begin[T any](x []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(x))) }

// touchRead reads the ends of slices that assembly is about to read, for the race detector. Nil ones are left out.
func touchRead[T any](slices ...[]T) {
	var sink T
	for _, x := range slices {
		if len(x) > 0 {
			for _, i := range [2]int{0, len(x) - 1} {
				sink = x[i]
			}
		}
	}
	_ = sink
}

// touchWrite is touchRead for slices that assembly is about to write.
func touchWrite[T any](slices ...[]T) {
	for _, x := range slices {
		if len(x) > 0 {
			first, last := x[0], x[len(x)-1]
			x[0], x[len(x)-1] = first, last
		}
	}
}
