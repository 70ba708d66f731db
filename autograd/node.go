package autograd

import (
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// node is one recorded op. It is held by the values it made, by the nodes that consume them, and by a running pass;
// when the last lets go its saved set is dropped and the record is reused (R7).
type node struct {
	ss   *Session
	id   uint64
	gen  uint32
	refs int

	op    Op
	rule  *Rule
	view  Viewer // op, if it is one
	join  Joiner // op, if it is one
	leaf  bool   // no op: an input made to require a gradient
	site  memory.Site
	rand  tensor.Stream
	in    []edge
	outs  []tensor.Spec
	work  Work // of Backward
	sight sight
	saved []slot
	hooks []hook

	grads   []tensor.Tensor // of the outputs; empty: none yet
	pass    uint64          // the pass that visits it
	running bool            // a pass holds it
	needed  bool            // a captured gradient lies behind it
	apart   bool            // a view whose gradient has a buffer of its own in this pass (hooks, capture, strides, Pass)
	spent   bool            // backward has run and dropped the saved set
}

// edge is an input of a node: where its gradient goes.
type edge struct {
	node *node
	out  int
	par  *Param
	grad bool // the input required a gradient
	spec tensor.Spec
}

type hook struct {
	out int
	f   func(*Scope, *Value) *Value
}

func (ss *Session) newNode() *node {
	var n *node
	if k := len(ss.nodes); k > 0 {
		n, ss.nodes = ss.nodes[k-1], ss.nodes[:k-1]
	} else {
		n = &node{ss: ss}
	}
	ss.nodeID++
	n.id, n.refs = ss.nodeID, 1
	return n
}

// unref lets go of n, and of its ancestors as they become free: a loop, since graphs are deep.
func (n *node) unref() {
	n.refs--
	if n.refs > 0 {
		return
	}
	ss := n.ss
	dead := []*node{n}
	for len(dead) > 0 {
		n := dead[len(dead)-1]
		dead = dead[:len(dead)-1]
		n.drop()
		n.releaseGrads()
		for i := range n.in {
			if p := n.in[i].node; p != nil {
				if p.refs--; p.refs == 0 {
					dead = append(dead, p)
				}
			}
		}
		n.reset()
		ss.nodes = append(ss.nodes, n)
	}
}

// reset empties the record but keeps its slices.
func (n *node) reset() {
	clear(n.in)
	clear(n.outs)
	clear(n.hooks)
	*n = node{ss: n.ss, gen: n.gen + 1, in: n.in[:0], outs: n.outs[:0], saved: n.saved[:0], hooks: n.hooks[:0], grads: n.grads[:0]}
}

// drop ends the saved set.
func (n *node) drop() {
	for i := range n.saved {
		n.saved[i].drop()
	}
	n.saved = n.saved[:0]
}

func (n *node) releaseGrads() {
	for i := range n.grads {
		if !n.grads[i].Empty() {
			n.grads[i].Release()
			n.grads[i] = tensor.Tensor{}
		}
	}
}

// inSpec is the spec of input i as the kernels see it.
func (n *node) inSpec(i int) tensor.Spec {
	if n.rule.Broadcast {
		return n.sight.spec(tensor.Spec{DType: n.in[i].spec.DType, Shape: n.outs[0].Shape})
	}
	return n.sight.spec(n.in[i].spec)
}

// refSpec is the spec of what ref names, as it is stored.
func (n *node) refSpec(r Ref) tensor.Spec {
	if r >= 0 {
		return n.in[r].spec
	}
	return n.outs[^r]
}
