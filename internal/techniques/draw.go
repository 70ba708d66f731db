package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/thimble-ml/thimble/memory"
)

// colors are those of the examples' charts: Paul Tol's "muted" palette, which people with any kind of colour blindness can
// tell apart.
var colors = [memory.NumKinds]string{
	memory.Param: "#332288", memory.Grad: "#88ccee", memory.OptState: "#117733", memory.Activation: "#ddcc77", memory.Temporary: "#cc6677",
	memory.Scratch: "#aa4499", memory.Input: "#44aa99", memory.Staging: "#882255", memory.CastCopy: "#999933", memory.Other: "#bbbbbb",
}

// The measures of a picture, in pixels: two panels side by side, a legend on the right.
const (
	panelWidth  = 380
	panelHeight = 190
	left        = 52
	top         = 26
	gap         = 28
	legendWidth = 96
	columns     = 190 // of a panel; each is as high as the highest moment in it
)

// draw gives an SVG of the live bytes of both runs over their allocations, stacked by kind, on one scale.
func (f found) draw() string {
	plain, with := squeeze(f.before.curve), squeeze(f.after[0].curve)
	high := max(f.before.arena, f.after[0].fits())
	kinds := slices.DeleteFunc(memory.Kinds(), func(k memory.Kind) bool {
		return !slices.ContainsFunc(append(plain, with...), func(s split) bool { return s[k]*panelHeight >= high })
	})
	width, height := left+2*panelWidth+gap+legendWidth, top+panelHeight+24
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" fill="#222">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	axis(&b, high)
	panel(&b, left, "plain", plain, f.before.arena, high, kinds)
	name := f.name
	if n := first[f.name]; n != "" {
		name = n
	}
	panel(&b, left+panelWidth+gap, name, with, f.after[0].fits(), high, kinds)
	for i, k := range kinds {
		x, y := left+2*panelWidth+gap+12, top+6+17*i
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, y, colors[k], x+15, y+9, k)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// axis writes the scale in MiB, and rails through both panels.
func axis(b *strings.Builder, high int64) {
	step := int64(1 << 20)
	for _, f := range []int64{2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		if high/step > 6 {
			step = f << 20
		}
	}
	for at := int64(0); at <= high; at += step {
		y := top + panelHeight - at*panelHeight/high
		fmt.Fprintf(b, `<path d="M%d %dH%d" stroke="#e2e2e2"/><text x="%d" y="%d" text-anchor="end">%d</text>`+"\n", left, y, left+2*panelWidth+gap, left-6, y+4, at>>20)
	}
	fmt.Fprintf(b, `<text x="4" y="%d">MiB</text><text x="%d" y="%d" fill="#666">allocations of one update, in order</text>`+"\n", top-10, left, top+panelHeight+17)
}

// panel draws one run, and lines at its peak and at its arena.
func panel(b *strings.Builder, x int, title string, curve []split, arena, high int64, kinds []memory.Kind) {
	peak := highest(curve)
	y := func(bytes int64) int { return top + panelHeight - int(bytes*panelHeight/high) }
	fmt.Fprintf(b, `<text x="%d" y="%d">%s: peak %.1f MiB, arena %.1f MiB</text>`+"\n", x, top-10, title, float64(peak)/(1<<20), float64(arena)/(1<<20))
	under := make([]int64, len(curve))
	floor := make([]int, len(curve))
	for i := range floor {
		floor[i] = y(0)
	}
	for _, k := range kinds {
		ceiling := make([]int, len(curve))
		for i, s := range curve {
			under[i] += s[k]
			ceiling[i] = y(under[i])
		}
		fmt.Fprintf(b, `<path fill="%s" d="%s"/>`+"\n", colors[k], area(x, floor, ceiling))
		floor = ceiling
	}
	fmt.Fprintf(b, `<path d="M%d %dH%d" stroke="#222" stroke-dasharray="3 3"/><path d="M%d %dH%d" stroke="#222"/>`+"\n", x, y(peak), x+panelWidth, x, y(arena), x+panelWidth)
}

// area is the path around what lies between two curves of steps that begin at x.
func area(x int, floor, ceiling []int) string {
	n := len(floor)
	at := func(i int) int { return x + i*panelWidth/n }
	var b strings.Builder
	fmt.Fprintf(&b, "M%d %d", x, ceiling[0])
	for i := 1; i < n; i++ {
		if ceiling[i] != ceiling[i-1] {
			fmt.Fprintf(&b, "H%dV%d", at(i), ceiling[i])
		}
	}
	fmt.Fprintf(&b, "H%dV%d", at(n), floor[n-1])
	for i := n - 1; i > 0; i-- {
		if floor[i] != floor[i-1] {
			fmt.Fprintf(&b, "H%dV%d", at(i), floor[i-1])
		}
	}
	fmt.Fprintf(&b, "H%dZ", x)
	return b.String()
}

// squeeze gives a curve in columns, each the highest moment of its share.
func squeeze(curve []split) (list []split) {
	n := min(columns, len(curve))
	for i := range n {
		share := curve[i*len(curve)/n : (i+1)*len(curve)/n]
		list = append(list, slices.MaxFunc(share, func(a, b split) int { return cmp.Compare(sum(a), sum(b)) }))
	}
	return list
}

func highest(curve []split) (high int64) {
	for _, s := range curve {
		high = max(high, sum(s))
	}
	return high
}
