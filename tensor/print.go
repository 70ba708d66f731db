package tensor

import (
	"strconv"
	"strings"
)

// What String shows of a large tensor: of a dimension of more than 2*edge its first and last edge positions, and values
// at all only if that leaves at most mostCells of them.
const (
	edge      = 3
	mostCells = 1000
)

// String is the spec and the values, row by row, floats with 4 digits: as much as a person reads.
//
//	float32[2 8]
//	[[    0 0.125  0.25 ... 0.625  0.75 0.875]
//	 [    1 1.125  1.25 ... 1.625  1.75 1.875]]
func (t *Tensor) String() string {
	head := t.spec.String()
	switch {
	case !t.readable():
		return head + " (no data)"
	case t.Rank() == 0:
		return head + " " + t.cell(0)
	case shownCells(t.spec.Shape) > mostCells:
		return head + " (" + strconv.Itoa(t.Elems()) + " elements)"
	}
	p := printer{t: t}
	p.cells(0, 0)
	for _, c := range p.text {
		p.width = max(p.width, len(c))
	}
	p.out.WriteString(head + "\n")
	p.write(0)
	return p.out.String()
}

// shownCells is how many values of a tensor of this shape are shown.
func shownCells(shape []int) int {
	n := 1
	for _, d := range shape {
		if n *= min(d, 2*edge); n > mostCells {
			break
		}
	}
	return n
}

// printer collects the cells first, in row-major order, because all are written as wide as the widest.
type printer struct {
	t     *Tensor
	text  []string
	width int
	out   strings.Builder
}

// cells collects what is shown of the dimensions from dim on, whose first element is at.
func (p *printer) cells(dim, at int) {
	if dim == p.t.Rank() {
		p.text = append(p.text, p.t.cell(at))
		return
	}
	n := p.t.spec.Shape[dim]
	for i := range n {
		if !hidden(i, n) {
			p.cells(dim+1, at+i*p.t.Stride(dim))
		}
	}
}

// hidden reports whether position i of n is left out.
func hidden(i, n int) bool { return n > 2*edge && i >= edge && i < n-edge }

// write lays out the dimensions from dim on, taking cells off the front.
func (p *printer) write(dim int) {
	if dim == p.t.Rank() {
		p.out.WriteString(strings.Repeat(" ", p.width-len(p.text[0])) + p.text[0])
		p.text = p.text[1:]
		return
	}
	between := " "
	if dim < p.t.Rank()-1 {
		between = "\n" + strings.Repeat(" ", dim+1)
	}
	p.out.WriteString("[")
	n := p.t.spec.Shape[dim]
	for i := 0; i < n; i++ {
		if i > 0 {
			p.out.WriteString(between)
		}
		if hidden(i, n) {
			p.out.WriteString("...")
			i = n - edge - 1
			continue
		}
		p.write(dim + 1)
	}
	p.out.WriteString("]")
}

// cell is the text of the element at places behind the first.
func (t *Tensor) cell(at int) string {
	switch v := t.load(at); t.spec.DType {
	case Int64:
		return strconv.FormatInt(t.loadInt64(at), 10)
	case Int32, Uint8:
		return strconv.FormatInt(int64(v), 10)
	case Bool:
		return strconv.FormatBool(v != 0)
	default:
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
}
