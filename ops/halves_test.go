package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
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
