package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// SwiGLU tests silu(gate) up and both gradients, together and alone, over layouts of gate and up.
func SwiGLU[T kernel.Float](
	t *testing.T,
	forward func(y, gate, up kernel.Strided[T], lo, hi int),
	backward func(dgate, dup kernel.SwiGLUGrad[T], g, gate, up kernel.Strided[T], lo, hi int),
) {
	k := 0
	layouts3(func(shape []int, dv, gv, uv view) {
		k++
		n := kernel.Elems(shape)
		gate, up, g := Rand[T](gv.n, 1), Rand[T](uv.n, 2), Rand[T](n, 3)
		for i := 5; i < gv.n; i += 17 {
			gate[i] = []T{T(math.Inf(1)), T(math.Inf(-1)), T(math.NaN()), 0, 90, -90}[i/17%6]
		}
		x, u := operand(gv, gate, shape), operand(uv, up, shape)
		want, wantGate, wantUp := make([]float64, dv.n), make([]float64, dv.n), make([]float64, dv.n)
		at, xo, uo := offsets(dv, shape), offsets(gv, shape), offsets(uv, shape)
		add := k%3 == 0
		old := dirty[T](dv.n, add)
		for i, v := range old {
			want[i] = math.NaN()
			wantGate[i], wantUp[i] = float64(v), float64(v)
		}
		for i := range at {
			x, u, g := float64(gate[xo[i]]), float64(up[uo[i]]), float64(g[i])
			s := 1 / (1 + math.Exp(-x))
			dg, du := g*u*s*(1+x*(1-s)), g*x*s
			if add {
				dg, du = wantGate[at[i]]+dg, wantUp[at[i]]+du
			}
			want[at[i]], wantGate[at[i]], wantUp[at[i]] = x/(1+math.Exp(-x))*u, dg, du
		}
		what := fmt.Sprint(shape, dv.name, " = ", gv.name, " , ", uv.name)
		got := elementwise(t, shape, dv, func() []T { return filled(dv.n, T(math.NaN())) }, func(dst kernel.Strided[T], lo, hi int) {
			forward(dst, x, u, lo, hi)
		})
		Close(t, want, got, 2, 0, what)
		for which := 1; which <= 3; which++ {
			dgate, dup := clone(old), clone(old)
			var to, too kernel.SwiGLUGrad[T]
			if which&1 != 0 {
				to = kernel.SwiGLUGrad[T]{Dst: operand(dv, dgate, shape), Add: add}
			}
			if which&2 != 0 {
				too = kernel.SwiGLUGrad[T]{Dst: operand(dv, dup, shape), Add: add}
			}
			for c := range kernel.Chunks(n) {
				lo, hi := kernel.Range(n, c)
				backward(to, too, kernel.Contiguous(g, shape), x, u, lo, hi)
			}
			if which&1 != 0 {
				Close(t, wantGate, dgate, 3, 8, "dgate", what)
			}
			if which&2 != 0 {
				Close(t, wantUp, dup, 3, 8, "dup", what)
			}
		}
	})
}
