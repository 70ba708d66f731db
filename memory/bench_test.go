package memory_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/memory"
)

// go test -run=^$ -bench=. -benchmem ./memory

// BenchmarkAllocRelease is one buffer made and released while others are alive and holes are open, as in backward.
func BenchmarkAllocRelease(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  memory.Config
		live int
	}{
		{"empty", memory.Config{}, 0},
		{"live=100", memory.Config{}, 100},
		{"live=1000", memory.Config{}, 1000},
		{"live=10000", memory.Config{}, 10000},
		{"virtual/live=1000", memory.Config{Virtual: true}, 1000},
	} {
		b.Run(c.name, func(b *testing.B) {
			d, err := memory.NewDevice(c.cfg)
			require.NoError(b, err)
			fragment(b, d, c.live)
			at := memory.Site{Op: "linear", Scope: "gpt/blocks.3"}
			sizes := [...]int64{256, 4096, 100, 64 << 10, 1000}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				buf, err := d.Alloc(sizes[i%len(sizes)], memory.Temporary, at)
				if err != nil {
					b.Fatal(err)
				}
				buf.Release()
				i++
			}
		})
	}
}

// BenchmarkSteady keeps 1000 buffers alive and replaces one at random.
func BenchmarkSteady(b *testing.B) {
	d, err := memory.NewDevice(memory.Config{})
	require.NoError(b, err)
	rng := rand.New(rand.NewPCG(1, 2))
	at := memory.Site{Op: "linear", Scope: "gpt/blocks.3"}
	live := make([]*memory.Buffer, 1000)
	for i := range live {
		live[i], err = d.Alloc(rng.Int64N(64<<10), memory.Activation, at)
		require.NoError(b, err)
	}
	b.ReportAllocs()
	for b.Loop() {
		i := rng.IntN(len(live))
		live[i].Release()
		if live[i], err = d.Alloc(rng.Int64N(64<<10), memory.Activation, at); err != nil {
			b.Fatal(err)
		}
	}
	s := d.Stats()
	b.ReportMetric(float64(s.ArenaPeak)/float64(s.Peak), "arena/live")
}

// BenchmarkForkJoin is what a dry run costs before it does anything.
func BenchmarkForkJoin(b *testing.B) {
	d, err := memory.NewDevice(memory.Config{})
	require.NoError(b, err)
	fragment(b, d, 1000)
	for b.Loop() {
		d.Fork()
		d.Join()
	}
}

// fragment makes 2n buffers of random sizes and releases every other one.
func fragment(b *testing.B, d *memory.Device, n int) {
	b.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	for range n {
		_, err := d.Alloc(rng.Int64N(64<<10), memory.Param, memory.Site{Op: "keep"})
		require.NoError(b, err)
		gone, err := d.Alloc(rng.Int64N(64<<10), memory.Param, memory.Site{Op: "gone"})
		require.NoError(b, err)
		defer gone.Release()
	}
}
