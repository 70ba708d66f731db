package autograd

import (
	"fmt"
	"strings"
)

// SavedGroup is layers that keep the same, or entries outside of such layers.
type SavedGroup struct {
	// Layers is how many layers in a row there are; 1 for entries that belong to no layer, or to one like no neighbour.
	Layers int
	// Scope names the layers, with a star for the number: "gpt/blocks.*"; "" if Layers is 1.
	Scope string
	// First and Last are the numbers of the layers, if Layers is not 1.
	First, Last int
	// Bytes is what one of them keeps.
	Bytes int64
	// Tensors are the entries of one, if Layers is not 1 with a star for its number in their scopes.
	Tensors []SavedTensor
}

// FoldSaved puts layers that keep the same into one group, in the list's order: neighbours whose scopes differ in one
// number ("gpt/blocks.0", "gpt/blocks.1") and whose entries are otherwise equal, as JAX's print_saved_residuals would have
// them many times over. Of the layers within a layer, the outermost are folded.
func FoldSaved(list []SavedTensor) []SavedGroup {
	var groups []SavedGroup
	for len(list) > 0 {
		n := 1
		path, number, layer := layerOf(list[0].Scope)
		for n < len(list) && layer {
			p, k, ok := layerOf(list[n].Scope)
			if !ok || p != path || k != number {
				break
			}
			n++
		}
		groups = join(groups, newGroup(list[:n], path, number, layer), layer)
		list = list[n:]
	}
	for i := range groups {
		if g := &groups[i]; g.Layers == 1 {
			g.Scope, g.First, g.Last = "", 0, 0
		}
	}
	return groups
}

// newGroup is one layer with that number, or what is outside of layers.
func newGroup(list []SavedTensor, path string, number int, layer bool) SavedGroup {
	g := SavedGroup{Layers: 1, Tensors: list}
	for i := range list {
		g.Bytes += list[i].Bytes
	}
	if layer {
		g.Scope, g.First, g.Last = path, number, number
	}
	return g
}

// join adds g, which is a layer or not, to the last group if it is the next of the same layers.
func join(groups []SavedGroup, g SavedGroup, layer bool) []SavedGroup {
	n := len(groups)
	switch {
	case n == 0:
	case !layer && groups[n-1].Scope == "" && groups[n-1].Layers == 1: // entries outside of layers are one group
		last := &groups[n-1]
		last.Tensors = append(last.Tensors[:len(last.Tensors):len(last.Tensors)], g.Tensors...)
		last.Bytes += g.Bytes
		return groups
	case layer && groups[n-1].continues(&g):
		last := &groups[n-1]
		if last.Layers == 1 {
			last.Tensors = starred(last.Tensors)
		}
		last.Layers, last.Last = last.Layers+1, g.First
		return groups
	}
	return append(groups, g)
}

// continues tells whether next is the layer after those of g and keeps the same.
func (g *SavedGroup) continues(next *SavedGroup) bool {
	if g.Scope != next.Scope || next.First != g.Last+1 || len(g.Tensors) != len(next.Tensors) {
		return false
	}
	for i := range g.Tensors {
		a, b := g.Tensors[i], next.Tensors[i]
		if g.Layers == 1 {
			a.Scope = star(a.Scope)
		}
		if b.Scope = star(b.Scope); !a.Spec.Equal(b.Spec) || a.Bytes != b.Bytes || a.Op != b.Op || a.Scope != b.Scope || a.Why != b.Why || a.Where != b.Where {
			return false
		}
	}
	return true
}

func starred(list []SavedTensor) []SavedTensor {
	out := make([]SavedTensor, len(list))
	for i, s := range list {
		out[i] = s
		out[i].Scope = star(s.Scope)
	}
	return out
}

// star is scope with a star for the number of the outermost layer.
func star(scope string) string {
	path, _, ok := layerOf(scope)
	if !ok {
		return scope
	}
	from := strings.LastIndexByte(path, '*')
	to := from
	for to < len(scope) && scope[to] >= '0' && scope[to] <= '9' {
		to++
	}
	return path + scope[to:]
}

// layerOf finds the first part of a scope that is a number, or ends in a dot and one: "gpt/blocks.3/mlp" gives
// "gpt/blocks.*" and 3.
func layerOf(scope string) (path string, number int, ok bool) {
	for at := 0; at <= len(scope); {
		end := len(scope)
		if i := strings.IndexByte(scope[at:], '/'); i >= 0 {
			end = at + i
		}
		digits := end
		for digits > at && scope[digits-1] >= '0' && scope[digits-1] <= '9' {
			digits--
		}
		if n := end - digits; 0 < n && n < 10 && (digits == at || scope[digits-1] == '.') {
			for _, c := range scope[digits:end] {
				number = 10*number + int(c-'0')
			}
			return scope[:digits] + "*", number, true
		}
		at = end + 1
	}
	return "", 0, false
}

// FormatSaved gives the list as text with the total: a line an entry, and layers that keep the same once (see FoldSaved),
// under a line that says how many they are and what all of them keep.
func FormatSaved(list []SavedTensor) string {
	var b strings.Builder
	var total int64
	groups := FoldSaved(list)
	w := widths{spec: 24, op: 14, scope: 24}
	for i := range groups {
		w.fit(groups[i].Tensors)
	}
	for _, g := range groups {
		all := int64(g.Layers) * g.Bytes
		total += all
		if g.Layers == 1 {
			w.write(&b, "", g.Tensors)
			continue
		}
		fmt.Fprintf(&b, "%12d  x%d %s, %d to %d, each:\n", all, g.Layers, g.Scope, g.First, g.Last)
		w.write(&b, "  ", g.Tensors)
		fmt.Fprintf(&b, "  %12d  a layer\n", g.Bytes)
	}
	fmt.Fprintf(&b, "%12d  bytes kept for backward\n", total)
	return b.String()
}

// widths are those of the columns.
type widths struct{ spec, op, scope int }

// fit makes room for the entries.
func (w *widths) fit(list []SavedTensor) {
	for i := range list {
		s := &list[i]
		w.spec, w.op, w.scope = max(w.spec, len(s.Spec.String())), max(w.op, len(s.Op)), max(w.scope, len(s.Scope))
	}
}

func (w *widths) write(b *strings.Builder, indent string, list []SavedTensor) {
	for _, s := range list {
		scope := s.Scope
		if scope == "" {
			scope = "."
		}
		fmt.Fprintf(b, "%s%12d  %-*s %-*s %-*s %s (%s)\n", indent, s.Bytes, w.spec, s.Spec, w.op, s.Op, w.scope, scope, s.Why, s.Where)
	}
}
