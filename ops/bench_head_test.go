package ops_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/cputime"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// headForms are the plain head and the forms of the fused one.
var headForms = []struct {
	name string
	call func(s *autograd.Scope, x, w, targets value) value
}{
	{"plain", func(s *autograd.Scope, x, w, targets value) value {
		return s.Do("", func(s *autograd.Scope) value { return ops.CrossEntropy(s, ops.Linear(s, x, w, nil), targets) })
	}},
	{"apart", func(s *autograd.Scope, x, w, targets value) value {
		return ops.LinearCrossEntropy(s, x, w, nil, targets, ops.OneSweep(false))
	}},
	{"sweep", func(s *autograd.Scope, x, w, targets value) value {
		return ops.LinearCrossEntropy(s, x, w, nil, targets, ops.OneSweep(true))
	}},
}

// BenchmarkHead is forward and backward of a language model's head. In each round the forms take turns, so that the
// machine's other work meets all alike. What is reported is, of each form, the median of its times and of their ratios to
// the plain form's in the same round: elapsed, and of processors, which others that use them add less to.
// -benchtime 7x makes seven rounds.
func BenchmarkHead(b *testing.B) {
	for _, c := range []struct{ tokens, dim, words int }{
		{4096, 384, 65}, {1024, 768, 8192}, {4096, 768, 8192}, {1024, 768, 50257}, {4096, 768, 50257},
	} {
		b.Run(fmt.Sprintf("%dx%dx%d", c.tokens, c.dim, c.words), func(b *testing.B) { benchHead(b, c.tokens, c.dim, c.words) })
	}
}

func benchHead(b *testing.B, tokens, dim, words int) {
	r := newRig(b, autograd.Config{})
	defer r.close()
	x := r.tensor(newArray(tokens, dim), tensor.Float32)
	defer x.Release()
	targets := r.tensor(newArray(tokens), tensor.Int64)
	defer targets.Release()
	for i := range tokens {
		tensor.Data[int64](targets)[i] = int64(i * 7919 % words)
	}
	stream := tensor.Stream{Seed: 1}
	require.NoError(b, tensor.FillNormal(x, &stream, 0, 1))
	w, err := r.sess.NewParam("w", tensor.Of(tensor.Float32, words, dim), func(t *tensor.Tensor, st *tensor.Stream) error {
		return tensor.FillNormal(t, st, 0, 0.02)
	})
	require.NoError(b, err)
	step := func(i int) (wall, cpu float64) {
		start, before := time.Now(), cputime.Process()
		r.ok(func(s *autograd.Scope) {
			headForms[i].call(s, s.Input(x).RequireGrad(), w.Value(), s.Input(targets)).Backward(s)
		})
		wall, cpu = time.Since(start).Seconds(), (cputime.Process() - before).Seconds()
		w.ZeroGrad()
		return wall, cpu
	}
	step(0) // the device gets its memory
	var ms, wall, cpu [3][]float64
	for b.Loop() {
		var plainWall, plainCPU float64
		for i := range headForms {
			t, used := step(i)
			if i == 0 {
				plainWall, plainCPU = t, used
			}
			ms[i], wall[i], cpu[i] = append(ms[i], t*1e3), append(wall[i], t/plainWall), append(cpu[i], used/plainCPU)
		}
	}
	for i, f := range headForms {
		b.ReportMetric(median(ms[i]), f.name+"-ms")
		if i > 0 {
			b.ReportMetric(median(wall[i]), f.name+"/plain")
			b.ReportMetric(median(cpu[i]), f.name+"/plain-cpu")
		}
	}
	b.ReportMetric(0, "ns/op")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
