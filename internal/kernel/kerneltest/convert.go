package kerneltest

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Convert tests conversion between the float types, filling and adding, over layouts.
func Convert[D, S kernel.Float](t *testing.T, convert func(dst kernel.Strided[D], add bool, src kernel.Strided[S], lo, hi int)) {
	k := 0
	layouts3(func(shape []int, dv, _, sv view) {
		k++
		add := k%2 == 0
		src, old := Specials(Rand[S](sv.n, 1), 1), dirty[D](dv.n, add)
		want, at, from := clone(old), offsets(dv, shape), offsets(sv, shape)
		for i := range at {
			v := D(src[from[i]])
			if add {
				v += want[at[i]]
			}
			want[at[i]] = v
		}
		got := elementwise(t, shape, dv, func() []D { return clone(old) }, func(dst kernel.Strided[D], lo, hi int) {
			convert(dst, add, operand(sv, src, shape), lo, hi)
		})
		SameBits(t, want, got, shape, dv.name, " <- ", sv.name)
	})
}
