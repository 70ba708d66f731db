package kernel

// store puts the sums of one micro-tile at (i, j) into C. first says that they are those of the first block of K.
func (g *GEMM[T]) store(sum *[tileRows * tileCols]T, i, j, rows, cols int, first bool) {
	if first && g.Bias != nil {
		for c, b := range g.Bias[j:][:cols] {
			sum[c] += b
			sum[tileCols+c] += b
		}
	}
	fill, at := first && !g.Add, i*g.LDC+j
	if rows < tileRows || cols < tileCols {
		g.storeEdge(sum, at, rows, cols, fill)
		return
	}
	c0, c1 := (*[tileCols]T)(g.C[at:]), (*[tileCols]T)(g.C[at+g.LDC:])
	if fill {
		*c0, *c1 = [tileCols]T(sum[:tileCols]), [tileCols]T(sum[tileCols:])
		return
	}
	for c := range c0 {
		c0[c] += sum[c]
		c1[c] += sum[tileCols+c]
	}
}

// storeEdge is store for a micro-tile that C's edge cuts.
func (g *GEMM[T]) storeEdge(sum *[tileRows * tileCols]T, at, rows, cols int, fill bool) {
	for r := range rows {
		c, s := g.C[at+r*g.LDC:][:cols], sum[r*tileCols:][:cols]
		if fill {
			copy(c, s)
			continue
		}
		for k, x := range s {
			c[k] += x
		}
	}
}
