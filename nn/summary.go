package nn

import (
	"strconv"
	"strings"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Summary is a table of the parameters and buffers of m, in the order of [StateDict], one a line: name, dtype and shape,
// number of parameters, bytes of the value, of the gradient, and of buffers, and a line of totals. Bytes have a column for
// each kind that is there; "frozen" stands behind what is not trained. The bytes of a parameter that lives in a Home count
// too, although they are not on the device.
func Summary(m any) string {
	var total summaryRow
	rows := []summaryRow{}
	for _, e := range walk(m).list {
		r := e.summary()
		rows = append(rows, r)
		total.add(r)
	}
	total.name = "total"
	cells := [][]string{{"name", "value", "parameters"}}
	var kinds []memory.Kind
	for _, k := range []memory.Kind{memory.Param, memory.Grad, memory.Other} {
		if total.bytes[k] > 0 {
			kinds = append(kinds, k)
			cells[0] = append(cells[0], k.String()+" bytes")
		}
	}
	for _, r := range append(rows, total) {
		cells = append(cells, r.cells(kinds))
	}
	return align(cells)
}

// summaryRow is one line of a Summary.
type summaryRow struct {
	name, value, note string
	params            int64
	bytes             [memory.NumKinds]int64
}

func (r *summaryRow) add(o summaryRow) {
	r.params += o.params
	for k, n := range o.bytes {
		r.bytes[k] += n
	}
}

func (r summaryRow) cells(kinds []memory.Kind) []string {
	c := []string{r.name, r.value, strconv.FormatInt(r.params, 10)}
	for _, k := range kinds {
		c = append(c, strconv.FormatInt(r.bytes[k], 10))
	}
	if r.note != "" {
		c = append(c, r.note)
	}
	return c
}

func (e named) summary() summaryRow {
	var spec tensor.Spec
	r := summaryRow{name: e.name}
	switch {
	case e.p == nil:
		spec = e.buf.Spec()
		r.bytes[memory.Other] = spec.Bytes()
	default:
		spec = e.p.Spec()
		r.params, r.bytes[memory.Param] = int64(spec.Elems()), spec.Bytes()
		if e.p.HasGrad() {
			r.bytes[memory.Grad] = spec.Bytes()
		}
		if e.p.Frozen() {
			r.note = "frozen"
		}
	}
	r.value = spec.String()
	return r
}

// align sets cells in columns: the first two and what is behind the heading's last to the left, numbers to the right.
func align(cells [][]string) string {
	width := make([]int, len(cells[0]))
	for _, row := range cells {
		for i := range width {
			width[i] = max(width[i], len([]rune(row[i])))
		}
	}
	var b strings.Builder
	for _, row := range cells {
		for i, c := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			pad := ""
			if i < len(width) {
				pad = strings.Repeat(" ", width[i]-len([]rune(c)))
			}
			if i < 2 {
				b.WriteString(c + pad)
			} else {
				b.WriteString(pad + c)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
