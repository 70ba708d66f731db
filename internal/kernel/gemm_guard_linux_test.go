package kernel_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Nothing is read or written outside of the operands, not even where assembly could get away with it: they end, and then
// begin, where memory does.
func TestGEMMStaysInside(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		t.Run("float32", staysInside[float32])
		t.Run("float64", staysInside[float64])
	})
}

func staysInside[T kernel.Float](t *testing.T) {
	const room = 1 << 20
	view := func() []T { return kernel.View[T](floatBytes(fenced(t, room))) }
	a, b, c, bias := view(), view(), view(), view()
	for seed := range uint64(200) {
		g, _ := anyGEMM[T](rand.New(rand.NewPCG(seed, 4)))
		for _, atEnd := range []bool{true, false} {
			fenceIn := func(fence, x []T) []T {
				at := 0
				if atEnd {
					at = len(fence) - len(x)
				}
				copy(fence[at:], x)
				return fence[at:][:len(x):len(x)]
			}
			in := *g
			in.A, in.B, in.C = fenceIn(a, g.A), fenceIn(b, g.B), fenceIn(c, g.C)
			if g.Bias != nil {
				in.Bias = fenceIn(bias, g.Bias)
			}
			runGEMM(nil, 1, &in, newRoom(&in, 1))
		}
	}
}

// floatBytes is the memory of x.
func floatBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// fenced is memory between two pages that nobody may touch.
func fenced(t *testing.T, floats int) []float32 {
	page := unix.Getpagesize()
	size := (4*floats + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(m)) })
	require.NoError(t, unix.Mprotect(m[:page], unix.PROT_NONE))
	require.NoError(t, unix.Mprotect(m[page+size:], unix.PROT_NONE))
	return unsafe.Slice((*float32)(unsafe.Pointer(&m[page])), size/4)
}
