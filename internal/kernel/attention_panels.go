package kernel

// How much attention with panels (attention_panels_amd64.go) takes of a lane's scratch: known to all families, since the
// figure must be the same for all.

// panelCols is the width of a panel.
const panelCols = 16

// attentionPanelQueries is from how many queries on panels, sixteen queries wide, are worth it.
const attentionPanelQueries = 4

// paneled says whether panels are used where there are kernels for them.
func (p *AttentionPlan) paneled() bool {
	return p.Queries >= attentionPanelQueries && p.Keys > 0 && p.Dim > 0 && p.ValueDim > 0
}

// attentionRoom is the number of elements of each part of the scratch; 0: it is not wanted.
type attentionRoom struct {
	qt, gt int // panels of queries and of Out's gradient, transposed
	kp, vp int // a tile of keys, and of values, as panels
	tail   int // rows of a tile of keys that make no group
	qp, gp int // a tile of queries, and of Out's gradient, as panels
	out    int // of Out, or the gradient of q
	pairs  int // one panel of pairs
	grads  int // and of their gradients
	tile   int // a tile of pairs, and one of their gradients
	dk, dv int
}

func (r *attentionRoom) parts() [13]int {
	return [13]int{r.qt, r.gt, r.kp, r.vp, r.tail, r.qp, r.gp, r.out, r.pairs, r.grads, r.tile, r.tile, r.dk + r.dv}
}

func (r attentionRoom) bytes() (n int64) {
	for _, part := range r.parts() {
		n += roundUp64(4 * int64(part))
	}
	return n
}

func wholePanels(n int) int { return roundUp(n, panelCols) }

func (p *AttentionPlan) panelsForward() attentionRoom {
	tq, tk := wholePanels(p.rowStep()), attentionStep(p.Keys)
	return attentionRoom{
		qt: tq * p.Dim, tail: 4 * p.Dim, vp: tk * wholePanels(p.ValueDim),
		out: tq * wholePanels(p.ValueDim), pairs: wholePanels(tk) * panelCols,
	}
}

func (p *AttentionPlan) panelsRows() attentionRoom {
	tq, tk := wholePanels(p.rowStep()), attentionStep(p.Keys)
	return attentionRoom{
		qt: tq * p.Dim, gt: tq * p.ValueDim, tail: 4 * max(p.Dim, p.ValueDim),
		kp: tk * wholePanels(p.Dim), out: panelCols * wholePanels(p.Dim),
		pairs: wholePanels(tk) * panelCols, grads: wholePanels(tk) * panelCols,
	}
}

func (p *AttentionPlan) panelsColumns() attentionRoom {
	tq, tk := attentionStep(p.Queries), attentionStep(p.Keys)
	return attentionRoom{
		qt: panelCols * p.Dim, gt: panelCols * p.ValueDim, tail: 4 * max(p.Dim, p.ValueDim),
		kp: tk * wholePanels(p.Dim), qp: tq * wholePanels(p.Dim), gp: tq * wholePanels(p.ValueDim),
		out:   panelCols * wholePanels(p.Dim),
		pairs: wholePanels(tk) * panelCols, grads: wholePanels(tk) * panelCols,
		tile: wholePanels(tq) * wholePanels(tk), dk: wholePanels(tk) * wholePanels(p.Dim), dv: wholePanels(tk) * wholePanels(p.ValueDim),
	}
}
