package ops

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// dtypeTable ends the errors of dtypes that an op does not take.
const dtypeTable = "; docs/dtypes.md has what each op takes"

var errDTypes = errors.New("want equal dtypes")

// wantFloats refuses inputs that are not all Float32 or all Float64. (Half types come as Float32, since the engine widens
// them.)
func wantFloats(in ...tensor.Spec) error {
	if dt := in[0].DType; dt != tensor.Float32 && dt != tensor.Float64 {
		return fmt.Errorf("want a float dtype, got %s"+dtypeTable, dt)
	}
	for _, s := range in[1:] {
		if s.DType != in[0].DType {
			return errDTypes
		}
	}
	return nil
}

// wantFactors is wantFloats of an op whose kernels take half types as they are: halves of one type, beside which autocast
// leaves parameters in Float32. It gives the dtype of the result.
func wantFactors(in ...tensor.Spec) (dt tensor.DType, err error) {
	for i := range in {
		if isHalf(in[i].DType) {
			dt = in[i].DType
		}
	}
	if !isHalf(dt) {
		return in[0].DType, wantFloats(in...)
	}
	for _, s := range in {
		if s.DType != dt && s.DType != tensor.Float32 {
			return dt, errDTypes
		}
	}
	return dt, nil
}

// wideOf is what dt is computed in.
func wideOf(dt tensor.DType) tensor.DType {
	if isHalf(dt) {
		return tensor.Float32
	}
	return dt
}

// wantIndex refuses what cannot number rows; what names it.
func wantIndex(what string, s tensor.Spec) error {
	if s.DType != tensor.Int64 && s.DType != tensor.Int32 {
		return fmt.Errorf("want int64 or int32 %s, got %s"+dtypeTable, what, s.DType)
	}
	return nil
}

// byFloat chooses between the instances of a generic function by a dtype that wantFloats has let pass.
func byFloat[F any](dt tensor.DType, f32, f64 F) F {
	if dt == tensor.Float32 {
		return f32
	}
	return f64
}

// byIndex chooses by a dtype that wantIndex has let pass.
func byIndex[F any](dt tensor.DType, i32, i64 F) F {
	if dt == tensor.Int32 {
		return i32
	}
	return i64
}

// optional is the elements of a tensor that may not be there: a hidden output that nobody wants, a gradient that nobody
// asks for.
func optional[T tensor.Elem](t *tensor.Tensor) []T {
	if t == nil || t.Empty() {
		return nil
	}
	return tensor.Data[T](t)
}

// input is the elements of input i, or nil if it was not given.
func input[T tensor.Elem](f *autograd.Fwd, i int) []T {
	if i >= len(f.In) {
		return nil
	}
	return tensor.Data[T](&f.In[i])
}
