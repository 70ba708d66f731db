// Mean over windows of a plane, in the layout [... H W]: windows of one size, whose padding counts as zeros, or the bins
// of an adaptive pool, torch's:
//
//	start = floor(o In / Out)     end = ceil((o+1) In / Out)     which overlap where Out does not divide In
//
//	forward   y[o] = sum(x in window o) / size     reads x
//	backward  dx[i] = the sum of g[o] / size over the windows that i lies in
//
// size is that of the window with its padding, or of the bin. Sums of forward are carried in float64, but for windows of 2 x 2
// with AVX2, which are float32; those of backward are made in dx.

package kernel

// AvgPool is the geometry of a mean: of windows, or of bins if Adaptive (then Kernel, Stride and Pad do not count).
type AvgPool struct {
	Pool
	Adaptive bool
}

// span is the positions along dimension d that window o has within the border.
func (p *AvgPool) span(d, o int) (lo, hi int) {
	if p.Adaptive {
		return o * p.In[d] / p.Out[d], ceilDiv((o+1)*p.In[d], p.Out[d])
	}
	_, lo, hi = p.window(d, o)
	return lo, hi
}

// size is how many elements the sum over these rows and columns is divided by.
func (p *AvgPool) size(rows, cols int) float64 {
	if p.Adaptive {
		return float64(rows * cols)
	}
	return float64(p.Kernel[0] * p.Kernel[1])
}

// AvgPoolForward fills planes [lo, hi) of y.
func AvgPoolForward[T Float](p *AvgPool, y, x []T, lo, hi int) {
	if avgPoolFast(p, y, x, lo, hi) {
		return
	}
	width, out := p.In[1], p.Out[1]
	for n := lo; n < hi; n++ {
		plane := x[n*p.plane():][:p.plane()]
		for oh := range p.Out[0] {
			r0, r1 := p.span(0, oh)
			row := y[n*p.pixels()+oh*out:][:out]
			for ow := range row {
				c0, c1 := p.span(1, ow)
				sum := 0.0
				if c1-c0 >= 8 {
					sum = windowSum(plane, width, r0, r1, c0, c1)
				} else {
					for at := r0*width + c0; at < r1*width; at += width {
						for _, v := range plane[at : at+c1-c0] {
							sum += float64(v)
						}
					}
				}
				row[ow] = T(sum / p.size(r1-r0, c1-c0))
			}
		}
	}
}

// windowSum is for wide windows, often of whole planes.
func windowSum[T Float](plane []T, width, r0, r1, c0, c1 int) (sum float64) {
	if c1-c0 == width {
		return sumRow(plane[r0*width : r1*width])
	}
	for r := r0; r < r1; r++ {
		sum += sumRow(plane[r*width+c0 : r*width+c1])
	}
	return sum
}

// AvgPoolBackward fills planes [lo, hi) of dx with the gradient of x, or adds it.
func AvgPoolBackward[T Float](p *AvgPool, dx []T, add bool, g []T, lo, hi int) {
	if avgPoolBackFast(p, dx, add, g, lo, hi) {
		return
	}
	if !add {
		clear(dx[lo*p.plane() : hi*p.plane()])
	}
	i, width := lo*p.pixels(), p.In[1]
	for n := lo; n < hi; n++ {
		plane := dx[n*p.plane():][:p.plane()]
		for oh := range p.Out[0] {
			r0, r1 := p.span(0, oh)
			for ow := range p.Out[1] {
				c0, c1 := p.span(1, ow)
				v := T(float64(g[i]) / p.size(r1-r0, c1-c0))
				for r := r0; r < r1; r++ {
					row := plane[r*width+c0 : r*width+c1]
					for k := range row {
						row[k] += v
					}
				}
				i++
			}
		}
	}
}
