package ops_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/thimble-ml/thimble/autograd"
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

// BenchmarkHead is forward and backward of a language model's head. The forms take turns, so that the machine's other
// work meets all alike; what is reported is the median of each, of the plain one, and the ratio.
func BenchmarkHead(b *testing.B) {
	for _, c := range []struct{ tokens, dim, words int }{{4096, 384, 65}, {4096, 768, 8192}, {4096, 768, 50257}} {
		b.Run(fmt.Sprintf("%dx%dx%d", c.tokens, c.dim, c.words), func(b *testing.B) {
			r := newRig(b, autograd.Config{})
			defer r.close()
			x := r.tensor(newArray(c.tokens, c.dim), tensor.Float32)
			defer x.Release()
			targets := r.tensor(newArray(c.tokens), tensor.Int64)
			defer targets.Release()
			for i := range c.tokens {
				tensor.Data[int64](targets)[i] = int64(i * 7919 % c.words)
			}
			stream := tensor.Stream{Seed: 1}
			if err := tensor.FillNormal(x, &stream, 0, 1); err != nil {
				b.Fatal(err)
			}
			w, err := r.sess.NewParam("w", tensor.Of(tensor.Float32, c.words, c.dim), func(t *tensor.Tensor, st *tensor.Stream) error {
				return tensor.FillNormal(t, st, 0, 0.02)
			})
			if err != nil {
				b.Fatal(err)
			}
			times := make([][]time.Duration, len(headForms))
			for b.Loop() {
				for i, f := range headForms {
					start := time.Now()
					r.ok(func(s *autograd.Scope) { f.call(s, s.Input(x).RequireGrad(), w.Value(), s.Input(targets)).Backward(s) })
					times[i] = append(times[i], time.Since(start))
					w.ZeroGrad()
				}
			}
			medians := make([]float64, len(headForms))
			for i := range times {
				slices.Sort(times[i])
				medians[i] = times[i][len(times[i])/2].Seconds()
				b.ReportMetric(medians[i]*1e3, headForms[i].name+"-ms")
			}
			b.ReportMetric(medians[1]/medians[0], "apart/plain")
			b.ReportMetric(medians[2]/medians[0], "sweep/plain")
			b.ReportMetric(0, "ns/op")
		})
	}
}
