package tensor

import (
	"strconv"
	"strings"
)

// What String shows of a large tensor, as NumPy does by default.
const (
	wholeElems = 1000   // up to here, every value; beyond, of each dimension
	edge       = 3      // the first and the last so many positions,
	mostCells  = 10_000 // unless that are more than so many values in all: then none
	lineWidth  = 75     // rows that are longer go on in the next line
)

// String is the spec on a line of its own and the values below, laid out as NumPy's print does it with a precision of 4:
//
//	float32[2 1000]
//	[[0.    0.125 0.25  ... 3.    2.    1.   ]
//	 [  NaN  -Inf 0.1   ... 3.    2.    1.   ]]
//
// Floats have the fewest digits that tell them from their neighbours, at most 4 behind the point, and are aligned at it.
// If the largest is 1e8 or more, the smallest below 1e-4, or one more than 1000 times the other (zeros apart), all are
// written with exponents. Of more than 1000 elements the first and last 3 along each dimension are shown. A scalar stands
// on the line of its spec. NaN, Inf, true and false are spelled as Go does.
func (t *Tensor) String() string {
	head := t.spec.String()
	p := printer{t: t, short: t.Elems() > wholeElems}
	switch {
	case !t.readable():
		return head + " (no data)"
	case t.Elems() == 0:
		return head + "\n[]"
	case p.shown() > mostCells:
		return head + " (" + strconv.Itoa(t.Elems()) + " elements)"
	}
	p.find(0, 0)
	p.text = t.texts(p.places)
	if t.Rank() == 0 {
		return head + " " + p.text[0]
	}
	return head + "\n" + p.block(0)
}

// printer lays out the texts of the elements that are shown.
type printer struct {
	t      *Tensor
	short  bool     // leave the middle of each dimension out
	places []int    // of the elements that are shown, in row-major order
	text   []string // theirs, all of one length; block takes them off the front
}

// shown is how many elements are shown; beyond mostCells it stops counting.
func (p *printer) shown() int {
	n := 1
	for _, d := range p.t.spec.Shape {
		if p.short {
			d = min(d, 2*edge)
		}
		if n *= d; n > mostCells {
			break
		}
	}
	return n
}

// hidden reports whether position i of n is left out.
func (p *printer) hidden(i, n int) bool { return p.short && i >= edge && i < n-edge }

// find collects the places that are shown of the dimensions from dim on, whose first element is at.
func (p *printer) find(dim, at int) {
	if dim == p.t.Rank() {
		p.places = append(p.places, at)
		return
	}
	n, step := p.t.spec.Shape[dim], p.t.Stride(dim)
	for i := range n {
		if !p.hidden(i, n) {
			p.find(dim+1, at+i*step)
		}
	}
}

// block is the text of the dimensions from dim on, without what stands before it in its first line. Matrices are
// separated by an empty line, three-dimensional blocks by two, and so on.
func (p *printer) block(dim int) string {
	n, rank := p.t.spec.Shape[dim], p.t.Rank()
	var parts []string
	for i := 0; i < n; i++ {
		switch {
		case p.hidden(i, n):
			parts = append(parts, "...")
			i = n - edge - 1
		case dim == rank-1:
			parts = append(parts, p.text[0])
			p.text = p.text[1:]
		default:
			parts = append(parts, p.block(dim+1))
		}
	}
	if dim == rank-1 {
		return "[" + row(parts, rank) + "]"
	}
	gap := strings.Repeat("\n", rank-1-dim) + strings.Repeat(" ", dim+1)
	return "[" + strings.Join(parts, gap) + "]"
}

// row joins the cells of a row, in as many lines as it takes. It starts behind indent brackets, and so does each further
// line; the brackets that end it have room in any.
func row(cells []string, indent int) string {
	var done strings.Builder
	line, start := cells[0], indent
	for _, c := range cells[1:] {
		if start+len(line)+1+len(c) > lineWidth-indent {
			done.WriteString(strings.TrimRight(line, " ") + "\n" + strings.Repeat(" ", indent))
			line = c
			continue
		}
		line += " " + c
	}
	return done.String() + line
}

// texts is the elements at places behind the first, all written equally wide.
func (t *Tensor) texts(places []int) []string {
	out := make([]string, len(places))
	var f *floatFormat
	if t.spec.DType.IsFloat() {
		f = newFloatFormat(t.spec.DType, len(places), func(i int) float64 { return t.load(places[i]) })
	}
	for i, at := range places {
		switch t.spec.DType {
		case Int64:
			out[i] = strconv.FormatInt(t.loadInt64(at), 10)
		case Int32, Uint8:
			out[i] = strconv.FormatInt(int64(t.load(at)), 10)
		case Bool:
			out[i] = strconv.FormatBool(t.load(at) != 0)
		default:
			out[i] = f.text(t.load(at))
		}
	}
	width := 0
	for _, s := range out {
		width = max(width, len(s))
	}
	for i, s := range out {
		out[i] = strings.Repeat(" ", width-len(s)) + s
	}
	return out
}
