package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/autograd/gradcheck"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// A fused layer has the bits of two ops: of every dtype, under autocast, with NaN and infinities, on a tile, in chunks and in
// stages, however its inputs lie, with gradients and without.
func TestFusedHasTheBitsOfTwoOps(t *testing.T) {
	type modes = func(*autograd.Scope) *autograd.Scope
	plainModes := func(s *autograd.Scope) *autograd.Scope { return s }
	autocast := func(s *autograd.Scope) *autograd.Scope {
		return s.WithAutocast(autograd.CastPolicy{Low: tensor.BFloat16})
	}
	for _, f := range fusedForms {
		t.Run(f.name, func(t *testing.T) {
			for _, c := range []struct {
				dt    tensor.DType
				modes modes
			}{{tensor.Float32, plainModes}, {tensor.Float64, plainModes}, {tensor.Float16, plainModes}, {tensor.BFloat16, plainModes}, {tensor.Float32, autocast}} {
				for i, in := range [][]arg{f.args(4, 2, 3, 5), f.args(1, 7, 3), f.args(33, 9), f.args(3, 2, 0), f.args(300, 2, 65, 270)} {
					j := (&row{call: one(f.call)}).job(t, autograd.Config{Workers: 2}, in, c.dt, []layout{plain, sliced, transposed}[i%3])
					spoil(j)
					j.ok(func(s *autograd.Scope) {
						s = c.modes(s)
						want := f.composed(s.NoGrad(), j.views(s, j.inputs(s, false)))
						for _, got := range []value{
							f.call(s.NoGrad(), j.views(s, j.inputs(s, true))), // nobody records
							f.call(s, j.views(s, j.inputs(s, false))),         // nobody wants a gradient
							f.call(s, j.views(s, j.inputs(s, true))),
						} {
							require.Equal(t, want.Spec(), got.Spec())
							require.NoError(t, near(read(want.Tensor()), read(got.Tensor()), 0, 0), "%s of %s, inputs %d", f.name, c.dt, i)
						}
					})
					j.close()
				}
			}
		})
	}
}

// spoil puts an infinity and a NaN into x.
func spoil(j *job) {
	if x := j.in[0]; x.Elems() > 2 && x.DType() == tensor.Float32 {
		v := tensor.Data[float32](x)
		v[1], v[len(v)-2] = float32(math.Inf(1)), float32(math.NaN())
	}
}

// With gradients it is the two ops: what they save, their gradients, and their events.
func TestFusedWithGradientsIsTwoOps(t *testing.T) {
	for _, f := range fusedForms {
		t.Run(f.name, func(t *testing.T) {
			j := (&row{call: one(f.call)}).job(t, autograd.Config{}, f.args(4, 2, 3, 5), tensor.Float64, plain)
			defer j.close()
			require.NoError(t, gradcheck.Check(j.sess, func(s *autograd.Scope, in []value) []value { return []value{f.call(s, in)} }, j.in, gradcheck.Config{}))
			trace := func(call func(*autograd.Scope, []value) value) (events []memory.Event) {
				old := j.dev.SetTrace(func(e memory.Event) {
					events = append(events, memory.Event{Act: e.Act, Addr: e.Addr, Bytes: e.Bytes, Live: e.Live, Kind: e.Kind, Site: e.Site, Phase: e.Phase})
				})
				defer func() { j.dev.SetTrace(old) }()
				j.ok(func(s *autograd.Scope) {
					y := call(s, j.inputs(s, true))
					y.Backward(s, autograd.WithGrad(j.seeds[0]))
				})
				return events
			}
			require.Equal(t, trace(f.composed), trace(f.call))
		})
	}
}

// Without gradients the product is no tensor: as large as the result only the result is made, and a dry run says so. (ReLU and
// a residual are written over the product where there are two ops, and make no second one either.)
func TestFusedMakesNoProduct(t *testing.T) {
	for _, f := range fusedForms {
		t.Run(f.name, func(t *testing.T) {
			j := (&row{call: one(f.call)}).job(t, autograd.Config{}, f.args(100, 50, 10), tensor.Float32, plain)
			defer j.close()
			made := func(call func(*autograd.Scope, []value) value) (makers []string) {
				plan := plantest.Compare(t, j.sess, func(s *autograd.Scope) error { call(s.NoGrad(), j.inputs(s, true)); return nil })
				for _, e := range plan.Steps[1].Events {
					if e.Act == memory.Alloc && e.Bytes == 50*100*4 {
						makers = append(makers, e.Site.Op)
					}
				}
				return makers
			}
			require.Equal(t, []string{f.rule}, made(f.call))
			require.Equal(t, "linear", made(f.composed)[0])
			if f.name != "relu" && f.name != "add" {
				require.Len(t, made(f.composed), 2)
			}
		})
	}
}

// What the kernel cannot take as it lies, or is not of the result's spec, is for two ops.
func TestFusedTakesTheOtherWay(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x, w := r.tensor(floats(6, 5).values(1), tensor.Float32), r.tensor(floats(4, 5).values(2), tensor.Float32)
	row, tall := r.tensor(floats(4).values(3), tensor.Float32), r.tensor(floats(4, 6).values(4), tensor.Float32)
	defer func() {
		for _, t := range []*tensor.Tensor{x, w, row, tall} {
			t.Release()
		}
	}()
	r.ok(func(s *autograd.Scope) {
		s = s.NoGrad()
		x, w := s.Input(x), s.Input(w)
		for _, with := range []value{s.Input(row), ops.Transpose(s, s.Input(tall), 0, 1)} {
			want := ops.Add(s, ops.Linear(s, x, w, nil), with)
			require.Equal(t, read(want.Tensor()), read(ops.LinearAdd(s, x, w, nil, with).Tensor()))
		}
		low := s.WithAutocast(autograd.CastPolicy{Low: tensor.BFloat16}) // a residual in float32 stays in float32
		stream := ops.Transpose(s, s.Input(tall), 0, 1)
		want := ops.Add(low, ops.Linear(low, x, w, nil), stream)
		got := ops.LinearAdd(low, x, w, nil, stream)
		require.Equal(t, tensor.Float32, got.DType())
		require.Equal(t, read(want.Tensor()), read(got.Tensor()))
	})
	r.fails(func(s *autograd.Scope) { ops.LinearActivation(s, s.Input(x), s.Input(w), nil, 0) }, "linear_activation", "activation 0: want ActReLU")
	r.fails(func(s *autograd.Scope) { ops.LinearActivation(s, s.Input(x), s.Input(row), nil, ops.ActGELU) }, "linear_activation", "want x [... K] and weight [N K]")
	r.fails(func(s *autograd.Scope) { ops.LinearActivation(s, s.Input(x), nil, nil, ops.ActGELU) }, "linear[", "input 1 is nil")
	r.fails(func(s *autograd.Scope) { ops.LinearAdd(s, s.Input(x), s.Input(w), nil, nil) }, "add_", "input 1 is nil")
	r.fails(func(s *autograd.Scope) { ops.LinearSwiGLU(s, s.Input(x), s.Input(w), nil, s.Input(row)) }, "swiglu", "want equal shapes")
}
