// dst = or += src, converted to another element type, each operand with its own strides. Reads src.

package kernel

// Convert fills elements [lo, hi), in row-major order, of dst with src as a D, rounded to nearest even, or adds that.
func Convert[D Float, S Number | uint8](dst Strided[D], add bool, src Strided[S], lo, hi int) {
	if dst.Strides == nil && src.Strides == nil {
		convertRow(dst.Data[lo:hi], add, src.Data[lo:hi])
		return
	}
	var p blockPair[D, S]
	for p.open(dst, src, lo, hi); p.more(); {
		d, s := p.at()
		convertRow(d, add, s)
		p.put(d)
	}
}

func convertRow[D Float, S Number | uint8](d []D, add bool, s []S) {
	s = s[:len(d)]
	if convertFast(d, add, s) {
		return
	}
	if add {
		for i, v := range s {
			d[i] += D(v)
		}
		return
	}
	for i, v := range s {
		d[i] = D(v)
	}
}
