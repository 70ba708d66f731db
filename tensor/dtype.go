package tensor

import (
	"fmt"
)

// DType is the type of a tensor's elements. The zero value is Float32.
type DType uint8

// The element types.
const (
	Float32  DType = iota
	Float64        // for gradcheck and references
	Float16        // IEEE 754 binary16: 5 bits of exponent, 10 of mantissa
	BFloat16       // the upper half of a float32: 8 bits of exponent, 7 of mantissa
	Int64          // indices, labels
	Int32
	Uint8 // images, masks, packed bits
	Bool  // one byte, 0 or 1
)

var dtypes = [...]struct {
	name string
	size int
}{
	Float32:  {"float32", 4},
	Float64:  {"float64", 8},
	Float16:  {"float16", 2},
	BFloat16: {"bfloat16", 2},
	Int64:    {"int64", 8},
	Int32:    {"int32", 4},
	Uint8:    {"uint8", 1},
	Bool:     {"bool", 1},
}

// DTypes lists every DType, in their numerical order. The caller owns the slice.
func DTypes() []DType {
	all := make([]DType, len(dtypes))
	for i := range all {
		all[i] = DType(i)
	}
	return all
}

// Valid reports whether dt is one of the constants.
func (dt DType) Valid() bool { return int(dt) < len(dtypes) }

// Size is the bytes of one element. It panics if dt is not valid.
func (dt DType) Size() int { return dtypes[dt].size }

// String is the name, as in "float32"; ParseDType reads it.
func (dt DType) String() string {
	if !dt.Valid() {
		return fmt.Sprintf("dtype(%d)", uint8(dt))
	}
	return dtypes[dt].name
}

// IsFloat reports whether dt is one of the four float types, the only ones that have gradients.
func (dt DType) IsFloat() bool { return dt <= BFloat16 }

// IsInteger reports whether dt is Int64, Int32 or Uint8. Bool is not.
func (dt DType) IsInteger() bool { return dt >= Int64 && dt <= Uint8 }

// isHalf reports whether dt is stored in 16 bits.
func (dt DType) isHalf() bool { return dt == Float16 || dt == BFloat16 }

// ParseDType is the DType that s names, as String writes it.
func ParseDType(s string) (DType, error) {
	for i := range dtypes {
		if dtypes[i].name == s {
			return DType(i), nil
		}
	}
	return 0, fmt.Errorf("tensor: dtype %q: want one of %v", s, DTypes())
}
