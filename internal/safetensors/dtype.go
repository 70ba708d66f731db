package safetensors

import (
	"fmt"
	"math"
	"slices"

	"github.com/thimble-ml/thimble/tensor"
)

// names are the format's names of dtypes.
var names = [...]string{
	tensor.Float32: "F32", tensor.Float64: "F64", tensor.Float16: "F16", tensor.BFloat16: "BF16",
	tensor.Int64: "I64", tensor.Int32: "I32", tensor.Uint8: "U8", tensor.Bool: "BOOL",
}

// sizes are the bytes of an element of all types that the format had when this was written; of others nothing is checked
// but that their bytes are there.
var sizes = map[string]int64{
	"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1,
	"I8": 1, "I16": 2, "U16": 2, "U32": 4, "U64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "C64": 8,
}

// Entry is a tensor of a file.
type Entry struct {
	Name  string
	DType string // the format's name: "F32"
	Shape []int
	Lo    int64 // bytes Lo up to Hi of the data
	Hi    int64
}

// Spec is what e is in this library, an error if there is no such dtype.
func (e *Entry) Spec() (tensor.Spec, error) {
	i := slices.Index(names[:], e.DType)
	if i < 0 {
		return tensor.Spec{}, fmt.Errorf("%s: dtype %s: want one of %v", e.Name, e.DType, names)
	}
	return tensor.Spec{DType: tensor.DType(i), Shape: e.Shape}, nil
}

// String is dtype and shape: "F32[2 3]".
func (e *Entry) String() string { return fmt.Sprintf("%s%v", e.DType, e.Shape) }

// check compares the bytes with dtype and shape.
func (e *Entry) check() error {
	size, known := sizes[e.DType]
	n, empty := int64(1), false
	for _, d := range e.Shape {
		switch {
		case d < 0:
			return fmt.Errorf("%q: shape %v: a dimension is negative", e.Name, e.Shape)
		case d == 0:
			empty = true
		case n > math.MaxInt64/16/int64(d):
			return fmt.Errorf("%q: %s: too many elements", e.Name, e)
		default:
			n *= int64(d)
		}
	}
	if empty {
		n = 0
	}
	if known && e.Hi-e.Lo != n*size {
		return fmt.Errorf("%q: %s in %d bytes: want %d", e.Name, e, e.Hi-e.Lo, n*size)
	}
	return nil
}
