package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// What linear_cross_entropy computes on pieces of the logits; how they are cut is in linearcrossentropy_cut.go.

// head is one call at work.
type head[T kernel.Float, I kernel.Index] struct {
	headCut
	r          *autograd.Run
	x, w, bias []T
	targets    []I
	loss       kernel.CrossEntropyOptions[T]

	logits     []T       // of a piece, then their gradients
	lse        []T       // of its rows
	state      []float64 // of its rows, from classes to classes
	packedRows []T       // its rows of x, packed
	room       []byte    // of a product or of sums

	g      []T     // the gradient of each row's loss,
	scale  float64 // times this; g nil: this alone
	dx     []T     // nil: not wanted
	dw, db []T
	add    [3]bool // dx, dw and db hold something to add to
}

// open cuts the shared scratch up.
func (h *head[T, I]) open(r *autograd.Run, dt tensor.DType) {
	h.r = r
	mem := r.Shared()
	next := func(n int64) (piece []byte) {
		piece, mem = mem[:n:n], mem[n:]
		return piece
	}
	room := h.headCut.room(dt)
	h.logits, h.lse, h.state = kernel.View[T](next(room.logits)), kernel.View[T](next(room.lse)), kernel.View[float64](next(room.state))
	h.packedRows = kernel.View[T](next(room.packed))
	h.room = mem
}

// forward fills losses and lse, each unless nil, and gives the sum of the losses. With sweep, whose pieces have all classes,
// it goes on to the gradients.
func (h *head[T, I]) forward(losses, lse []T, sweep bool) (sum float64) {
	h.each(func(p headPiece) {
		h.product(p)
		row := h.lse
		if lse != nil {
			row = lse[p.lo:p.hi]
		}
		h.takeIn(p, kernel.Cut(losses, p.lo, p.hi), row)
		if p.last() {
			sum = kernel.CrossEntropySum(sum, h.state, p.rows())
		}
		if sweep {
			h.slopes(p, row)
			h.spread(p)
		}
	})
	return sum
}

// backward makes the gradients; lse is that of all rows.
func (h *head[T, I]) backward(lse []T) {
	h.each(func(p headPiece) {
		h.product(p)
		h.slopes(p, lse[p.lo:p.hi])
		h.spread(p)
	})
}

// product makes the logits of a piece.
func (h *head[T, I]) product(p headPiece) {
	g := kernel.GEMM[T]{
		M: p.rows(), N: p.Cols, K: h.k,
		A: h.x[p.lo*h.k : p.hi*h.k], LDA: h.k, Packed: h.packedRows,
		B: h.w[p.First*h.k:][:p.Cols*h.k], LDB: h.k, TransB: true,
		C: h.logits, LDC: p.Cols,
		Bias: kernel.Cut(h.bias, p.First, p.First+p.Cols),
	}
	if h.packed && p.First == 0 {
		h.packRows(g)
	}
	gemm(h.r, h.room, g)
}

func (h *head[T, I]) packRows(g kernel.GEMM[T]) {
	h.r.Par(kernel.GEMMPackedChunks(g.M, g.K), func(_, c int) { g.PackRows(c) })
}

// takeIn adds a piece to what is known of its rows. With the last classes that fills losses and lse.
func (h *head[T, I]) takeIn(p headPiece, losses, lse []T) {
	h.r.Par(kernel.RowChunks(p.rows(), p.Cols), func(_, c int) {
		a, b := kernel.RowRange(p.rows(), p.Cols, c)
		targets, state, k := h.targets[p.lo+a:p.lo+b], h.state[a*kernel.CrossEntropyState:], h.loss
		kernel.CrossEntropyRange(state, h.logits[a*p.Cols:b*p.Cols], targets, p.ClassRange, &k)
		if p.last() {
			kernel.CrossEntropyRows(state, kernel.Cut(losses, a, b), lse[a:b], targets, p.Classes, &k)
		}
	})
}

// slopes turns the logits of a piece into their gradients. lse has one number for each of its rows.
func (h *head[T, I]) slopes(p headPiece, lse []T) {
	h.r.Par(kernel.RowChunks(p.rows(), p.Cols), func(_, c int) {
		a, b := kernel.RowRange(p.rows(), p.Cols, c)
		z, g, targets, k := h.logits[a*p.Cols:b*p.Cols], kernel.Cut(h.g, p.lo+a, p.lo+b), h.targets[p.lo+a:p.lo+b], h.loss
		kernel.CrossEntropyBackwardRange(z, false, g, h.scale, z, lse[a:b], targets, p.ClassRange, &k)
	})
}

// spread takes the gradients of the logits of a piece on to x, w and the bias.
func (h *head[T, I]) spread(p headPiece) {
	if h.dx != nil {
		n := atOnce(p.Cols, h.classes)
		h.spreadInput(p, 0, n)
		if n < p.Cols {
			h.spreadInput(p, n, p.Cols)
		}
	}
	if h.dw != nil {
		n := atOnce(p.rows(), h.rows)
		h.spreadWeight(p, 0, n)
		if n < p.rows() {
			h.spreadWeight(p, n, p.rows())
		}
	}
	if h.db != nil {
		plan, db := columnSumsPlan(p.rows(), p.Cols), kernel.Contiguous(h.db[p.First:][:p.Cols], []int{p.Cols})
		columnSumsPar(h.r, plan, db, h.add[2] || p.lo > 0, h.logits[:p.rows()*p.Cols], kernel.View[float64](h.room))
	}
}

// spreadInput adds what classes [a, b) of a piece give to the gradient of x.
func (h *head[T, I]) spreadInput(p headPiece, a, b int) {
	gemm(h.r, h.room, kernel.GEMM[T]{
		M: p.rows(), N: h.k, K: b - a,
		A: h.logits[a:], LDA: p.Cols,
		B: h.w[(p.First+a)*h.k:], LDB: h.k,
		C: h.dx[p.lo*h.k : p.hi*h.k], LDC: h.k, Add: h.add[0] || p.First+a > 0,
	})
}

// spreadWeight adds what rows [a, b) of a piece give to the gradient of w.
func (h *head[T, I]) spreadWeight(p headPiece, a, b int) {
	gemm(h.r, h.room, kernel.GEMM[T]{
		M: p.Cols, N: h.k, K: b - a,
		A: h.logits[a*p.Cols:], LDA: p.Cols, TransA: true,
		B: h.x[(p.lo+a)*h.k:], LDB: h.k,
		C: h.dw[p.First*h.k:][:p.Cols*h.k], LDC: h.k, Add: h.add[1] || p.lo+a > 0,
	})
}
