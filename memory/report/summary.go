package report

import (
	"fmt"
	"strings"

	"github.com/thimble-ml/thimble/memory"
)

// Summary gives d's figures of now as a boxed table, 75 characters wide, in the manner of torch.cuda.memory_summary. Peaks
// are those since ResetPeak, totals those since the device was made. Where torch splits by pool, it splits by kind, and Peak
// Usage of a kind is its share of the peak: the column adds up.
func Summary(d *memory.Device) string { return SummaryOf(d.Name(), d.Stats()) }

// SummaryOf is Summary of figures that were taken earlier.
func SummaryOf(name string, s memory.Stats) string {
	t := &table{}
	t.rule('=')
	t.line(centred("Thimble memory summary, device "+name, tableWidth))
	t.rule('-')
	t.line(centred(fmt.Sprintf("OOMs: %d", s.Failed), tableWidth/2) + "|" + centred(fmt.Sprintf("refused read-ahead: %d", s.Refused), tableWidth/2))
	t.rule('=')
	t.row("       Metric", "Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed")
	t.rule('-')
	t.row(" Live", size(s.Live), size(s.Peak), size(s.AllocBytes), size(s.FreeBytes))
	for _, k := range memory.Kinds() {
		if s.LiveByKind[k] != 0 || s.PeakByKind[k] != 0 {
			t.row("       "+k.String(), size(s.LiveByKind[k]), size(s.PeakByKind[k]), "", "")
		}
	}
	t.rule('-')
	t.row(" Arena", size(s.Arena), size(s.ArenaPeak), "", "")
	t.row(" Arena over live", ratio(s.Arena, s.Live), ratio(s.ArenaPeak, s.Peak), "", "")
	if s.Limit > 0 {
		t.row(" Arena of the limit", percent(s.Arena, s.Limit), percent(s.ArenaPeak, s.Limit), "", "")
	}
	t.rule('-')
	t.row(" Reserved", size(s.Reserved), size(s.ReservedPeak), "", "")
	if s.Locked > 0 {
		t.row(" Locked in RAM", size(s.Locked), "", "", "")
	}
	t.rule('-')
	t.row(" Buffers", fmt.Sprint(s.Buffers), fmt.Sprint(s.BuffersPeak), fmt.Sprint(s.Allocs), fmt.Sprint(s.Frees))
	t.rule('=')
	return t.String()
}

const tableWidth = 73 // between the borders

type table struct{ strings.Builder }

func (t *table) line(s string) { fmt.Fprintf(t, "|%-*s|\n", tableWidth, s) }

func (t *table) rule(c byte) { t.line(strings.Repeat(string(c), tableWidth)) }

func (t *table) row(name, current, peak, allocated, freed string) {
	t.line(fmt.Sprintf("%-21s|%11s |%11s |%11s |%11s ", name, current, peak, allocated, freed))
}

func centred(s string, width int) string {
	left := max(0, width-len(s)) / 2
	return fmt.Sprintf("%-*s", width, strings.Repeat(" ", left)+s)
}

// size gives bytes with a unit: "12.0 MiB".
func size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1023.95 { // what would print as 1024.0
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTPE"[unit])
}

func ratio(a, b int64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(a)/float64(b))
}

func percent(a, b int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(a)/float64(b))
}
