package ops_test

import (
	"runtime"
	"testing"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/cputime"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// perStep is how many ops a step of the benchmarks has.
const perStep = 64

// BenchmarkTinyOp is what an op costs beside its arithmetic: one op on 8 elements and the release of its result. cpu-ns is
// processor time, the collector's included.
func BenchmarkTinyOp(b *testing.B) {
	r := newRig(b, autograd.Config{})
	defer r.close()
	x := r.tensor(newArray(2, 4), tensor.Float32)
	row := r.tensor(newArray(4), tensor.Float32)
	w := r.tensor(newArray(4, 4), tensor.Float32)
	target := r.tensor(newArray(2), tensor.Int64)
	defer x.Release()
	defer row.Release()
	defer w.Release()
	defer target.Release()
	for _, c := range []struct {
		name string
		call func(s *autograd.Scope, x, row, w, target value) value
	}{
		{"Add", func(s *autograd.Scope, x, _, _, _ value) value { return ops.Add(s, x, x) }},
		{"AddRow", func(s *autograd.Scope, x, row, _, _ value) value { return ops.Add(s, x, row) }},
		{"ReLU", func(s *autograd.Scope, x, _, _, _ value) value { return ops.ReLU(s, x) }},
		{"GELU", func(s *autograd.Scope, x, _, _, _ value) value { return ops.GELU(s, x) }},
		{"Dropout", func(s *autograd.Scope, x, _, _, _ value) value { return ops.Dropout(s, x, 0.1) }},
		{"Linear", func(s *autograd.Scope, x, row, w, _ value) value { return ops.Linear(s, x, w, row) }},
		{"MatMul", func(s *autograd.Scope, x, _, w, _ value) value { return ops.MatMul(s, x, w) }},
		{"LayerNorm", func(s *autograd.Scope, x, row, _, _ value) value { return ops.LayerNorm(s, x, 1, row, row, 1e-5) }},
		{"CrossEntropy", func(s *autograd.Scope, x, _, _, target value) value { return ops.CrossEntropy(s, x, target) }},
		{"Embedding", func(s *autograd.Scope, _, _, w, target value) value { return ops.Embedding(s, w, target) }},
		{"Slice", func(s *autograd.Scope, x, _, _, _ value) value { return ops.Slice(s, x, 1, 0, 2) }},
	} {
		bench := func(name string, grad bool) {
			b.Run(c.name+name, func(b *testing.B) {
				var allocs0, allocs1 runtime.MemStats
				runtime.ReadMemStats(&allocs0)
				began := cputime.Process()
				for b.Loop() {
					r.ok(func(s *autograd.Scope) {
						xs := []value{s.Input(x), s.Input(row), s.Input(w), s.Input(target)}
						for _, v := range xs[:3] {
							if grad {
								v.RequireGrad()
							}
						}
						for range perStep {
							s.Free(c.call(s, xs[0], xs[1], xs[2], xs[3]))
						}
					})
				}
				runtime.ReadMemStats(&allocs1)
				n := float64(b.N) * perStep
				b.ReportMetric(float64((cputime.Process()-began).Nanoseconds())/n, "cpu-ns/tiny")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/tiny")
				b.ReportMetric(float64(allocs1.Mallocs-allocs0.Mallocs)/n, "allocs/tiny")
				b.ReportMetric(0, "ns/op")
			})
		}
		bench("", false)
		bench("/recorded", true)
	}
}

// BenchmarkTinyStep is forward and backward of a chain of ops on 8 elements, for one of them.
func BenchmarkTinyStep(b *testing.B) {
	r := newRig(b, autograd.Config{})
	defer r.close()
	x := r.tensor(newArray(8), tensor.Float32)
	defer x.Release()
	b.ReportAllocs()
	for b.Loop() {
		r.ok(func(s *autograd.Scope) {
			y := s.Input(x).RequireGrad()
			for range perStep {
				y = ops.ReLU(s, y)
			}
			y.Backward(s, autograd.WithGrad(x))
		})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/perStep, "ns/tiny")
}
