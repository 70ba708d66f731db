package checkpoint_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/internal/cputime"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
)

// BenchmarkStep is a training step of a GPT (forward, backward, AdamW) under each schedule against the plain one. In each round
// all take turns in one process, the first to go changes from round to round, and each has its ratio to the plain step of its
// round. What is reported is the median of the ratios of processor time, which other work on the machine adds less to than to the
// time that passes, and the least and the largest. -benchtime 21x makes 21 rounds.
func BenchmarkStep(b *testing.B) {
	for _, c := range []nn.GPTConfig{
		{Vocab: 65, Context: 128, Dim: 128, Heads: 4, Layers: 12, Dropout: 0.1},
		{Vocab: 65, Context: 256, Dim: 384, Heads: 6, Layers: 6, Dropout: 0.1},
	} {
		b.Run(fmt.Sprintf("layers=%d,dim=%d", c.Layers, c.Dim), func(b *testing.B) { benchStep(b, c) })
	}
}

var contestants = []struct {
	name  string
	chain nn.Chain
}{
	{"plain", nil},
	{"per-block", checkpoint.Chain(checkpoint.PerBlock)},
	{"sqrt", checkpoint.Chain(checkpoint.Sqrt)},
	{"recursive", checkpoint.Chain(checkpoint.Recursive)},
	{"dear-only", checkpoint.Chain(checkpoint.PerBlock, checkpoint.With(checkpoint.DearOnly))},
}

func benchStep(b *testing.B, c nn.GPTConfig) {
	r := newRig(b)
	defer r.close()
	m, err := nn.NewGPT(r.sess, c)
	require.NoError(b, err)
	x, y := r.ids(c.Vocab, 4, c.Context), r.ids(c.Vocab-2, 4, c.Context)
	defer x.Release()
	defer y.Release()
	opt, err := optim.NewAdamW(nn.Params(m), optim.AdamWConfig{LR: 1e-3})
	require.NoError(b, err)
	step := func(i int) float64 {
		m.Chain = contestants[i].chain
		before := cputime.Process()
		require.NoError(b, r.sess.Step(b.Context(), func(s *autograd.Scope) error {
			m.Loss(s, s.Input(x), s.Input(y)).Backward(s)
			if err := opt.Step(s); err != nil {
				return err
			}
			opt.ZeroGrad(s)
			return nil
		}))
		return (cputime.Process() - before).Seconds()
	}
	for i := range contestants { // the device gets its memory
		step(i)
	}
	n := len(contestants)
	ratios, first, plain := make([][]float64, n), 0, []float64(nil)
	for b.Loop() {
		took := make([]float64, n)
		for k := range n {
			i := (first + k) % n
			took[i] = step(i)
		}
		for i := range n {
			ratios[i] = append(ratios[i], took[i]/took[0])
		}
		plain, first = append(plain, took[0]), first+1
	}
	slices.Sort(plain)
	b.ReportMetric(plain[len(plain)/2]*1e3, "plain-cpu-ms")
	for i := 1; i < n; i++ {
		v := ratios[i]
		slices.Sort(v)
		b.ReportMetric(v[len(v)/2], contestants[i].name)
		b.Logf("%s: %.3f of the plain step's processor time, %.3f to %.3f, half of them %.3f to %.3f", contestants[i].name, v[len(v)/2], v[0], v[len(v)-1], v[len(v)/4], v[len(v)*3/4])
	}
	b.ReportMetric(0, "ns/op")
}
