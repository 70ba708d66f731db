package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/thimble-ml/thimble/memory"
)

var csvHeader = []string{"seq", "time_us", "op", "phase", "act", "buffer", "addr", "bytes", "kind", "live", "arena", "op_name", "scope", "spec", "why", "by_op", "by_scope"}

// WriteCSV writes a table of the events with a heading. Its first rows, with act "held" and seq 0, are what was alive before
// the first event. time_us is empty where times are not known; live and arena are the bytes just after the row's event; op is
// the number of the operation that ran, by_op and by_scope its name, op_name and scope are those of who asked for the buffer.
func (r *Recording) WriteCSV(w io.Writer) error {
	if _, err := r.Tensors(); err != nil {
		return err
	}
	out := csv.NewWriter(w)
	out.Write(csvHeader)
	var live, arena int64
	for i := range r.Held {
		h := &r.Held[i]
		live, arena = live+h.Bytes, max(arena, rounded(h.Addr+h.Bytes))
		out.Write([]string{"0", "", "0", "", "held", num(h.ID), num(h.Addr), num(h.Bytes), h.Kind.String(), num(live), num(arena),
			h.Site.Op, h.Site.Scope, h.Spec, h.Why, "", ""})
	}
	for i := range r.Events {
		e := &r.Events[i]
		row := []string{num(e.Seq), r.micros(i), num(e.Op), e.Phase, e.Act.String(), num(e.ID), num(e.Addr), num(e.Bytes), e.Kind.String(), num(e.Live), num(e.Arena),
			e.Site.Op, e.Site.Scope, e.Spec, e.Why, e.By.Op, e.By.Scope}
		if e.Act == memory.Mark {
			row[5], row[6], row[7], row[8] = "", "", "", ""
		}
		out.Write(row)
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("report: csv: %w", err)
	}
	return nil
}

func num[T int | int64 | uint64](n T) string { return strconv.FormatInt(int64(n), 10) }

// micros is the time of event i, "" if it is not known.
func (r *Recording) micros(i int) string {
	if len(r.Times) != len(r.Events) {
		return ""
	}
	return strconv.FormatFloat(float64(r.Times[i].Nanoseconds())/1e3, 'f', 3, 64)
}
