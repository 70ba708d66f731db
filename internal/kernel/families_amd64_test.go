//go:build amd64 && !purego

package kernel

import "testing"

var canAVX2 = useAVX2

// Families are the kernel families that this process can run on.
func Families() []string {
	if canAVX2 {
		return []string{"go", "avx2"}
	}
	return []string{"go"}
}

// UseFamily runs the rest of a test on one of Families.
func UseFamily(t testing.TB, family string) {
	old := useAVX2
	t.Cleanup(func() { useAVX2 = old })
	useAVX2 = family == "avx2"
}
