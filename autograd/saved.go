package autograd

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Where a saved tensor is.
type Where string

const (
	InMemory Where = "memory" // on the device
	InSaver  Where = "saver"  // in a Saver's hands
	InParam  Where = "param"  // a parameter: nothing is kept
)

// SavedTensor is one entry that backward will read.
type SavedTensor struct {
	// Bytes of the storage that the entry keeps, wherever it is; 0 if an entry before it keeps the same storage, or if
	// the entry is a parameter.
	Bytes int64
	Spec  tensor.Spec
	Op    string // who saved it
	Scope string
	Why   string // "input 0, for the gradient of input 1"
	Where Where
}

// Saved lists what the graph of v keeps for backward, in the order in which it was made.
func Saved(v *Value) []SavedTensor {
	v.use("saved", v.site.Scope)
	if v.node == nil {
		return nil
	}
	var list []SavedTensor
	seen := map[any]bool{}
	for _, n := range ancestors(v.node) {
		for i := range n.saved {
			list = append(list, n.saved[i].describe(n, seen))
		}
	}
	return list
}

// ancestors lists n and the nodes it depends on, oldest first.
func ancestors(n *node) []*node {
	seen := map[*node]bool{n: true}
	list := []*node{n}
	for at := 0; at < len(list); at++ {
		for i := range list[at].in {
			if p := list[at].in[i].node; p != nil && !seen[p] {
				seen[p] = true
				list = append(list, p)
			}
		}
	}
	slices.SortFunc(list, func(a, b *node) int { return cmp.Compare(a.id, b.id) })
	return list
}

func (sl *slot) describe(n *node, seen map[any]bool) SavedTensor {
	st := SavedTensor{Spec: n.refSpec(sl.ref), Op: n.site.Op, Scope: n.site.Scope, Why: n.why(sl.ref)}
	var storage any
	var bytes int64
	switch {
	case sl.par != nil:
		st.Where = InParam
		return st
	case sl.pk != nil:
		st.Where, storage, bytes = InSaver, sl.pk, sl.pk.spec.Bytes()
	default:
		st.Where, storage, bytes = InMemory, sl.t.Buffer(), sl.t.Buffer().Size()
		if sl.t.Buffer().Kind() == memory.Param {
			st.Where = InParam
			return st
		}
	}
	if !seen[storage] {
		seen[storage] = true
		st.Bytes = bytes
	}
	return st
}

// why says which gradients read ref.
func (n *node) why(ref Ref) string {
	text := strconv.AppendInt(append(make([]byte, 0, 64), "input "...), int64(ref), 10)
	if ref < 0 {
		text = strconv.AppendInt(append(text[:0], "output "...), int64(^ref), 10)
	}
	text = append(text, ", for the gradient of input "...)
	first := true
	for i, refs := range n.rule.Reads {
		if i >= len(n.in) || !n.in[i].grad || !slices.Contains(refs, ref) {
			continue
		}
		if !first {
			text = append(text, ", "...)
		}
		text, first = strconv.AppendInt(text, int64(i), 10), false
	}
	return string(text)
}
