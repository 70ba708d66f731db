// SwiGLU (Shazeer, "GLU variants improve transformer", 2020): y = silu(gate) up, s = sigmoid(gate).
//
//	forward   y = gate s up
//	backward  dgate = or += g up s (1 + gate (1-s))     reads gate and up
//	          dup   = or += g gate s                    reads gate
//
// In plain Go all is computed in float64 and rounded once. silu(gate), which a chain of ops would keep, is never stored.

package kernel

// SwiGLU fills elements [lo, hi), in row-major order, of y. y may be gate or up.
func SwiGLU[T Float](y, gate, up Strided[T], lo, hi int) {
	if y.Strides == nil && gate.Strides == nil && up.Strides == nil {
		swigluRow(y.Data[lo:hi], gate.Data[lo:hi], up.Data[lo:hi])
		return
	}
	var d, x, u blocks[T]
	d.open(y)
	x.open(gate)
	u.open(up)
	for ; lo < hi; lo += expBlock {
		n := min(expBlock, hi-lo)
		row := d.at(lo, n)
		swigluRow(row, x.at(lo, n), u.at(lo, n))
		d.put(lo, row)
	}
}

func swigluRow[T Float](y, x, u []T) {
	if swigluFast(y, x, u) {
		return
	}
	var v [expBlock]float64
	for len(x) > 0 {
		n := min(expBlock, len(x))
		expMinus(v[:n], x[:n])
		for i, e := range v[:n] {
			y[i] = T(float64(x[i]) / (1 + e) * float64(u[i]))
		}
		y, x, u = y[n:], x[n:], u[n:]
	}
}

// SwiGLUGrad is a gradient that is wanted: where it goes, and whether it is added there. The zero value is not wanted.
type SwiGLUGrad[T Float] struct {
	Dst Strided[T]
	Add bool
}

func (g *SwiGLUGrad[T]) wanted() bool { return g.Dst.Data != nil }

// SwiGLUBackward gives elements [lo, hi) of the gradients that are wanted, which do not overlap. up is read for gate's only.
func SwiGLUBackward[T Float](dgate, dup SwiGLUGrad[T], g, gate, up Strided[T], lo, hi int) {
	if dgate.Dst.Strides == nil && dup.Dst.Strides == nil && g.Strides == nil && gate.Strides == nil && up.Strides == nil {
		swigluBackwardRow(Cut(dgate.Dst.Data, lo, hi), Cut(dup.Dst.Data, lo, hi), dgate.Add, dup.Add,
			g.Data[lo:hi], gate.Data[lo:hi], Cut(up.Data, lo, hi))
		return
	}
	swigluBackwardBlocks(dgate, dup, g, gate, up, lo, hi)
}

// swigluBackwardBlocks makes one gradient after the other: both may lie in one buffer, that of a value and a view of it.
func swigluBackwardBlocks[T Float](dgate, dup SwiGLUGrad[T], g, gate, up Strided[T], lo, hi int) {
	var d0, d1, gs, x, u blocks[T]
	gs.open(g)
	x.open(gate)
	u.open(up)
	if dgate.wanted() {
		d0.open(dgate.Dst)
	}
	for at := lo; at < hi && dgate.wanted(); at += expBlock {
		n := min(expBlock, hi-at)
		row := d0.at(at, n)
		swigluBackwardRow(row, nil, dgate.Add, false, gs.at(at, n), x.at(at, n), u.at(at, n))
		d0.put(at, row)
	}
	if dup.wanted() {
		d1.open(dup.Dst)
	}
	for at := lo; at < hi && dup.wanted(); at += expBlock {
		n := min(expBlock, hi-at)
		row := d1.at(at, n)
		swigluBackwardRow(nil, row, false, dup.Add, gs.at(at, n), x.at(at, n), nil)
		d1.put(at, row)
	}
}

// swigluBackwardRow fills dgate and dup, or adds to them, each unless nil.
func swigluBackwardRow[T Float](dgate, dup []T, addGate, addUp bool, g, x, u []T) {
	if swigluBackwardFast(dgate, dup, addGate, addUp, g, x, u) {
		return
	}
	var v [2][expBlock]float64
	for lo := 0; lo < len(x); lo += expBlock {
		hi := min(len(x), lo+expBlock)
		slope, silu := v[0][:hi-lo], v[1][:hi-lo]
		swigluFactors(slope, silu, x[lo:hi])
		if dgate != nil {
			for i, w := range u[lo:hi] {
				slope[i] *= float64(w)
			}
			chain(dgate[lo:hi], addGate, g[lo:hi], slope)
		}
		if dup != nil {
			chain(dup[lo:hi], addUp, g[lo:hi], silu)
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
