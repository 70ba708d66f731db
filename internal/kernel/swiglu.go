// SwiGLU (Shazeer, "GLU variants improve transformer", 2020): y = silu(gate) up, s = sigmoid(gate).
//
//	forward   y = gate s up
//	backward  dgate = or += g up s (1 + gate (1-s))     reads gate and up
//	          dup   = or += g gate s                    reads gate
//
// All is computed in float64 and rounded once. silu(gate), which a chain of ops would keep, is never stored.

package kernel

// SwiGLU fills elements [lo, hi), in row-major order, of y. y may be gate or up.
func SwiGLU[T Float](y, gate, up Strided[T], lo, hi int) {
	var d, x, u blocks[T]
	var v [expBlock]float64
	d.open(y)
	x.open(gate)
	u.open(up)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		row := d.at(lo, n)
		swigluRow(row, x.at(lo, n), u.at(lo, n), v[:n])
		d.put(lo, row)
	}
}

func swigluRow[T Float](y, x, u []T, v []float64) {
	y, x, u = y[:len(v)], x[:len(v)], u[:len(v)]
	expMinus(v, x)
	for i, e := range v {
		y[i] = T(float64(x[i]) / (1 + e) * float64(u[i]))
	}
}

// SwiGLUGrad is a gradient that is wanted: where it goes, and whether it is added there. The zero value is not wanted.
type SwiGLUGrad[T Float] struct {
	Dst Strided[T]
	Add bool
}

// SwiGLUBackward gives elements [lo, hi) of the gradients that are wanted, gate's first. up is read for that one only.
func SwiGLUBackward[T Float](dgate, dup SwiGLUGrad[T], g, gate, up Strided[T], lo, hi int) {
	var d0, d1, gs, x, u blocks[T]
	var v [2][expBlock]float64
	d0.open(dgate.Dst)
	d1.open(dup.Dst)
	gs.open(g)
	x.open(gate)
	u.open(up)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		gRow, xRow := gs.at(lo, n), x.at(lo, n)
		slope, silu := v[0][:n], v[1][:n]
		swigluFactors(slope, silu, xRow)
		if dgate.Dst.Data != nil {
			for i, w := range u.at(lo, n) {
				slope[i] *= float64(w)
			}
			chainInto(&d0, dgate.Add, lo, gRow, slope)
		}
		if dup.Dst.Data != nil {
			chainInto(&d1, dup.Add, lo, gRow, silu)
		}
	}
}

// swigluFactors fills in the derivative of silu at x, and silu(x).
func swigluFactors[T Float](slope, silu []float64, x []T) {
	slope, silu = slope[:len(x)], silu[:len(x)]
	expMinus(slope, x)
	for i, e := range slope {
		w, s := float64(x[i]), 1/(1+e)
		slope[i], silu[i] = siluSlopeOf(w, s), w*s
	}
}

func chainInto[T Float](d *blocks[T], add bool, pos int, g []T, k []float64) {
	row := d.at(pos, len(k))
	chain(row, add, g, k)
	d.put(pos, row)
}
