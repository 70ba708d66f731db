package row

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/thimble-ml/thimble/memory"
)

// Number is a figure that may be missing. The zero value is missing: null in JSON, "-" in a table.
type Number struct {
	v  float64
	ok bool
}

// Num returns v, or the missing number if v is not finite.
func Num(v float64) Number {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Number{}
	}
	return Number{v, true}
}

// Value returns the number and whether there is one.
func (n Number) Value() (v float64, ok bool) { return n.v, n.ok }

// Format returns the number with the given digits after the point and the unit behind it, or "-".
func (n Number) Format(digits int, unit string) string {
	if !n.ok {
		return "-"
	}
	return fmt.Sprintf("%.*f%s", digits, n.v, unit)
}

// MarshalJSON writes the number or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.ok {
		return []byte("null"), nil
	}
	return json.Marshal(n.v)
}

// UnmarshalJSON reads a number or null.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number{}
		return nil
	}
	n.ok = true
	return json.Unmarshal(b, &n.v)
}

// ByKind is a number of bytes in its parts. Its JSON is an object with one key for each [memory.Kind], in their order.
type ByKind [memory.NumKinds]int64

// Sum returns all bytes together.
func (k ByKind) Sum() (sum int64) {
	for _, n := range k {
		sum += n
	}
	return sum
}

func (k ByKind) negative() bool { return slices.Min(k[:]) < 0 }

// MarshalJSON writes all kinds, those of 0 bytes too.
func (k ByKind) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, n := range k {
		b.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&b, "%q:%d", memory.Kind(i), n)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON wants exactly the keys that MarshalJSON writes.
func (k *ByKind) UnmarshalJSON(b []byte) error {
	var m map[string]int64
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("row: by_kind: %w", err)
	}
	for i := range k {
		name := memory.Kind(i).String()
		n, ok := m[name]
		if !ok {
			return fmt.Errorf("row: by_kind: no key %q", name)
		}
		k[i] = n
		delete(m, name)
	}
	for name := range m {
		return fmt.Errorf("row: by_kind: key %q: want %v", name, memory.Kinds())
	}
	return nil
}
