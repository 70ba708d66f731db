package autograd

import (
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Traced is an op that has run forward, or that is about to run backward, as [Session.SetTrace] tells it.
type Traced struct {
	Backward bool
	View     bool // the outputs are views: nothing was computed
	Rule     *Rule
	Site     memory.Site
	Cast     CastPolicy // forward: autocast's, where the op runs

	// In are the inputs of a forward run as their values have them: an input that autocast has rounded is of the half type,
	// a parameter, which is rounded as it is used, is not. Params names those that are parameters.
	In     []tensor.Spec
	Params []string

	// Out are the outputs, or in backward their gradients, to which every reader has added; one without a gradient is
	// empty. They may be read during the call.
	Out []*tensor.Tensor
}

// SetTrace has f see each op that the session runs, views and what backward computes again too; nil ends that. Dry runs
// are not traced: there is nothing to read. f must neither run ops nor keep what it is given.
func (ss *Session) SetTrace(f func(Traced)) { ss.trace = f }

// traceForward tells of an op that has run.
func (w *work) traceForward() {
	if w.ss.trace == nil || w.ss.Dry() {
		return
	}
	t := Traced{View: w.view(), Rule: w.rule, Site: w.site, Cast: w.s.m.Cast, In: w.specs, Params: make([]string, len(w.vals))}
	for i, v := range w.vals {
		if v.par != nil {
			t.Params[i] = v.par.name
		}
	}
	for _, v := range w.result {
		t.Out = append(t.Out, &v.t)
	}
	w.ss.trace(t)
}

func (w *work) view() bool {
	for _, v := range w.result {
		if v.t.Buffer() != w.vals[0].t.Buffer() {
			return false
		}
	}
	return !w.rule.InPlace
}

// traceBackward tells of a node whose gradients have all come.
func (p *pass) traceBackward(n *node) {
	if p.ss.trace == nil || p.ss.Dry() || n.leaf {
		return
	}
	t := Traced{Backward: true, View: n.view != nil, Rule: n.op.Rule(), Site: n.site}
	for i := range n.grads {
		t.Out = append(t.Out, &n.grads[i])
	}
	p.ss.trace(t)
}
