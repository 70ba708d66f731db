package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// halfTypes and what rounding to them loses at most, as a share of the number.
var halfTypes = map[tensor.DType]float64{tensor.Float16: 0x1p-11, tensor.BFloat16: 0x1p-8}

// rounded gives the arguments with elements that the half type holds.
func rounded(t *testing.T, in []arg, dt tensor.DType) (out []arg) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	for i, a := range in {
		if !a.index() {
			x := r.tensor(a.values(uint64(i)), dt)
			a.set = read(x).data
			x.Release()
		}
		out = append(out, a)
	}
	return out
}

// Every op computes in float32 on the halves that it is given and rounds once: values and gradients are those of float64
// on the same halves, up to that. (A gradient that reads a rounded output, or is handed through several ops, is off by as
// many roundings.)
func TestHalves(t *testing.T) {
	for dt, eps := range halfTypes {
		t.Run(dt.String(), func(t *testing.T) {
			eachRow(t, func(t *testing.T, r *row) {
				if r.fixedOnly() {
					t.Skip("no input of floating point")
				}
				in := rounded(t, r.in, dt)
				exact := r.job(t, autograd.Config{}, in, tensor.Float64, plain)
				half := r.job(t, autograd.Config{}, in, dt, plain)
				for k, s := range half.seeds { // the exact run starts from the same gradients
					if s.DType() == dt {
						require.NoError(t, tensor.Convert(exact.seeds[k], s))
					}
				}
				want, got := exact.run(), half.run()
				for k := range want.out {
					require.NoError(t, near(want.out[k], got.out[k], 2*eps, eps*scaleOf(want.out[k])), "output %d", k)
				}
				for k := range want.grad {
					require.NoError(t, near(want.grad[k], got.grad[k], 4*eps, 4*eps*max(1, scaleOf(want.grad[k]))), "gradient %d", k)
				}
				exact.close()
				half.close()
			})
		})
	}
}

// scaleOf is the largest finite number.
func scaleOf(a array) (top float64) {
	for _, v := range a.data {
		if v = math.Abs(v); v <= math.MaxFloat64 {
			top = max(top, v)
		}
	}
	return top
}

// Law M3 with halves, whose float32 copies the engine takes.
func TestDryRunOfHalves(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		for _, lay := range []layout{plain, sliced} {
			j := r.job(t, autograd.Config{}, r.in, tensor.BFloat16, lay)
			_, step := j.asParams()
			plantest.Compare(t, j.sess, func(s *autograd.Scope) error { step(s); return nil })
			j.close()
		}
	})
}

// nativeRows are the rows whose kernels take half types as they are, or a tile at a time, at sizes that every kernel cuts if
// there are any.
func nativeRows(t *testing.T, f func(t *testing.T, r *row, in []arg)) {
	native := map[string]bool{}
	for _, e := range ops.Catalog() {
		_, rows := e.Op.(autograd.Rower)
		native[e.Func] = e.Op.Rule().Halves || e.Op.Rule().Each || rows
	}
	eachRow(t, func(t *testing.T, r *row) {
		if !native[r.entry] || r.fixedOnly() {
			t.Skip("the engine widens its halves, or it has none")
		}
		if in := r.large; in != nil && !testing.Short() {
			f(t, r, in)
		} else {
			f(t, r, r.in)
		}
	})
}

// sameSums are the ops whose sums have the same order for all dtypes.
var sameSums = map[string]bool{"Linear": true, "MatMul": true}

// Kernels of halves give what those of float32 give on the same numbers, rounded once: bit for bit where sums have one
// order, else within one rounding more. (A gradient that reads the output reads a rounded one.)
func TestHalvesAreRoundedOnce(t *testing.T) {
	for dt, eps := range halfTypes {
		t.Run(dt.String(), func(t *testing.T) {
			nativeRows(t, func(t *testing.T, r *row, large []arg) {
				if r.unrecorded {
					t.Skip("two ops in one, each rounds: TestFusedHasTheBitsOfTwoOps")
				}
				in := rounded(t, large, dt)
				wide, half := r.job(t, autograd.Config{}, in, tensor.Float32, plain), r.job(t, autograd.Config{}, in, dt, plain)
				for k, s := range half.seeds {
					require.NoError(t, tensor.Convert(wide.seeds[k], s))
				}
				want, got := wide.run(), half.run()
				for k := range want.out {
					require.NoError(t, nearRounded(wide.rig, want.out[k], got.out[k], dt, eps/16, sameSums[r.entry]), "output %d", k)
				}
				for k := range want.grad {
					share := eps
					if r.entry == "Attention" { // a difference of sums, one of them of the rounded output
						share = 4 * eps * max(1, 1/scaleOf(want.grad[k]))
					}
					require.NoError(t, nearRounded(wide.rig, want.grad[k], got.grad[k], dt, share, sameSums[r.entry]), "gradient %d", k)
				}
				wide.close()
				half.close()
			})
		})
	}
}

// nearRounded compares got with want rounded to dt: exactly, or up to two roundings and a share of the largest element.
func nearRounded(r *rig, want, got array, dt tensor.DType, share float64, exact bool) error {
	if len(want.data) == 0 {
		return near(want, got, 0, 0)
	}
	x := r.tensor(want, dt)
	defer x.Release()
	if exact {
		return near(read(x), got, 0, 0)
	}
	return near(read(x), got, 4*halfTypes[dt], share*scaleOf(want))
}

// across are the rows along another dimension than the last.
var across = map[string]bool{"softmax/first": true, "softmax/no elements": true, "log_softmax/middle": true}

// Half types cost half: the engine makes as many buffers as for float32, and those of tensors are half as large. A float32
// copy of an operand, a result or a gradient would be one more.
func TestHalvesAreNotCopied(t *testing.T) {
	nativeRows(t, func(t *testing.T, r *row, in []arg) {
		if across[r.name] {
			t.Skip("works across rows: the engine widens its halves")
		}
		var buffers [2][]int64
		for i, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			j := r.job(t, autograd.Config{}, in, dt, plain)
			j.dev.SetTrace(func(e memory.Event) {
				if e.Act == memory.Alloc && e.Kind != memory.Scratch {
					buffers[i] = append(buffers[i], e.Bytes)
				}
			})
			j.run()
			j.dev.SetTrace(nil)
			j.close()
		}
		require.Len(t, buffers[1], len(buffers[0]), "%v for float32, %v for bfloat16", buffers[0], buffers[1])
	})
}

// Gradients that lie on each other's memory, in another order or in part, are not mixed up by tiles: they are those of
// float32 on the same numbers, up to the roundings of two sums.
func TestTilesOfOverlappingGradients(t *testing.T) {
	for name, f := range map[string]func(s *autograd.Scope, x value) value{
		"transposed": func(s *autograd.Scope, x value) value { return ops.Mul(s, x, ops.Transpose(s, x, 0, 1)) },
		"itself":     func(s *autograd.Scope, x value) value { return ops.Mul(s, x, x) },
		"shifted": func(s *autograd.Scope, x value) value {
			return ops.SwiGLU(s, ops.Slice(s, x, 0, 0, 150), ops.Slice(s, x, 0, 20, 170))
		},
		"parts": func(s *autograd.Scope, x value) value {
			return ops.SwiGLU(s, ops.Slice(s, x, 1, 0, 100), ops.Slice(s, x, 1, 100, 200))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var grads [2]array
			in := rounded(t, []arg{floats(200, 200)}, tensor.BFloat16)
			for i, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
				r := newRig(t, autograd.Config{Workers: 4})
				x := r.tensor(in[0].values(0), dt)
				r.ok(func(s *autograd.Scope) {
					v := s.Input(x)
					v.RequireGrad()
					ops.Sum(s, f(s, v)).Backward(s)
					grads[i] = read(v.Grad())
				})
				x.Release()
				r.close()
			}
			require.NoError(t, near(grads[0], grads[1], 0x1p-6, 0x1p-7))
		})
	}
}
