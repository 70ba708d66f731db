package philox_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/philox"
)

// The published vectors of Random123 (kat_vectors, philox4x32 10).
func TestKnownAnswers(t *testing.T) {
	for _, k := range []struct {
		name    string
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{"zeros", [4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			"ones", [4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, [2]uint32{0xffffffff, 0xffffffff},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{
			"pi", [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		t.Run(k.name, func(t *testing.T) {
			require.Equal(t, k.want, philox.Block(k.key, k.counter))
		})
	}
}

// The layout that doc.go promises, said a second time without Fill's arithmetic.
func word(seed, stream, w uint64) uint32 {
	b := philox.Block([2]uint32{uint32(seed), uint32(seed >> 32)},
		[4]uint32{uint32(w / 4), uint32(w / 4 >> 32), uint32(stream), uint32(stream >> 32)})
	return b[w%4]
}

func TestFillLayout(t *testing.T) {
	const seed, stream = 0x0123456789abcdef, 0xfedcba9876543210
	for _, offset := range []uint64{0, 1, 2, 3, 4, 1<<34 - 2, 1 << 40, 1<<64 - 3} {
		for n := range 14 {
			dst := make([]uint32, n)
			philox.Fill(dst, seed, stream, offset)
			for i := range dst {
				require.Equal(t, word(seed, stream, offset+uint64(i)), dst[i], "offset %d n %d word %d", offset, n, i)
			}
		}
	}
}

func FuzzFillChunks(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint64(3), uint64(4))
	f.Fuzz(func(t *testing.T, seed, stream, offset, cuts uint64) {
		whole, parts := make([]uint32, 97), make([]uint32, 97)
		philox.Fill(whole, seed, stream, offset)
		r := rand.New(rand.NewPCG(cuts, 0))
		for at := 0; at < len(parts); {
			n := min(r.IntN(11), len(parts)-at)
			philox.Fill(parts[at:at+n], seed, stream, offset+uint64(at))
			at += n
		}
		require.Equal(t, whole, parts)
	})
}

func TestStreamsDiffer(t *testing.T) {
	seen := map[uint32]bool{}
	for seed := range uint64(8) {
		for stream := range uint64(8) {
			var w [16]uint32
			philox.Fill(w[:], seed, stream, 0)
			for _, v := range w {
				seen[v] = true
			}
		}
	}
	require.Len(t, seen, 8*8*16) // a collision among 1024 of 2^32 would be one in 8000; this seed range has none
}

func TestUniformRange(t *testing.T) {
	require.Equal(t, float32(0), philox.Float32(0))
	require.Equal(t, float32(0), philox.Float32(255))
	require.Equal(t, float32(0x1p-24), philox.Float32(256))
	require.Equal(t, float32(1-0x1p-24), philox.Float32(0xffffffff))
	require.Less(t, philox.Float32(0xffffffff), float32(1))

	require.Equal(t, 0.0, philox.Float64(0, 0x7ff))
	require.Equal(t, 0x1p-53, philox.Float64(0, 0x800))
	require.Equal(t, 0.5, philox.Float64(1<<31, 0))
	require.Equal(t, 1-0x1p-53, philox.Float64(0xffffffff, 0xffffffff))
}

// Every bit of every lane is set about half the time: 5 sigma of a fair coin.
func TestBitsAreFair(t *testing.T) {
	const n = 1 << 16
	w := make([]uint32, n)
	philox.Fill(w, 42, 7, 0)
	for bit := range 32 {
		ones := 0
		for _, v := range w {
			ones += int(v >> bit & 1)
		}
		require.InDelta(t, n/2, ones, 5*128, "bit %d", bit) // sigma = sqrt(n)/2 = 128
	}
}

func TestFillDoesNotAllocate(t *testing.T) {
	dst := make([]uint32, 1001)
	require.Zero(t, testing.AllocsPerRun(10, func() { philox.Fill(dst, 1, 2, 3) }))
}

func BenchmarkFill(b *testing.B) {
	dst := make([]uint32, 1<<14)
	b.SetBytes(int64(4 * len(dst)))
	for b.Loop() {
		philox.Fill(dst, 1, 2, 0)
	}
}

// A stream is read from anywhere: no word depends on another having been drawn.
func ExampleFill() {
	var whole [6]uint32
	philox.Fill(whole[:], 1, 0, 0)

	var tail [2]uint32
	philox.Fill(tail[:], 1, 0, 4)
	fmt.Println(tail == [2]uint32(whole[4:]))
	// Output: true
}
