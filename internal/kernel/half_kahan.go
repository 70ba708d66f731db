// A float32 weight in two pieces of a half type: what is stored, and what rounding it has lost (compensated summation,
// Kahan, 1965), or beside a float32 master.

package kernel

// WidenPair fills dst with hi + lo.
func (h Half) WidenPair(dst []float32, hi, lo []uint16) {
	var room [expBlock]float32
	h.Widen(dst, hi)
	for at := 0; at < len(dst); at += expBlock {
		d := dst[at:min(at+expBlock, len(dst))]
		x := room[:len(d)]
		h.Widen(x, lo[at:at+len(d)])
		addRow(d, d, x)
	}
}

// RoundPair fills hi with src rounded to nearest even, and lo with what that has lost, rounded too. What lies beyond the
// type, and NaN, has lost nothing.
func (h Half) RoundPair(hi, lo []uint16, src []float32) {
	var room [expBlock]float32
	h.Round(hi, src)
	for at := 0; at < len(src); at += expBlock {
		s := src[at:min(at+expBlock, len(src))]
		x := room[:len(s)]
		h.Widen(x, hi[at:at+len(s)])
		for i, v := range x {
			if x[i] = s[i] - v; v-v != 0 {
				x[i] = 0
			}
		}
		h.Round(lo[at:at+len(s)], x)
	}
}

// Reconcile gives master, element by element, the value of w where it is not master rounded to nearest even: there w was
// written by somebody who does not know of master.
func (h Half) Reconcile(master []float32, w []uint16) {
	var room [expBlock]uint16
	var wide [expBlock]float32
	for at := 0; at < len(master); at += expBlock {
		m := master[at:min(at+expBlock, len(master))]
		r, x, stored := room[:len(m)], wide[:len(m)], w[at:at+len(m)]
		h.Round(r, m)
		h.Widen(x, stored)
		for i, v := range stored {
			if v != r[i] {
				m[i] = x[i]
			}
		}
	}
}
