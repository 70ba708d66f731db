package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// How linear_cross_entropy is cut into pieces of rows, and its kernels.

// headCut is the sizes: x is [rows k], there are so many classes, and a piece has per rows.
type headCut struct{ rows, k, classes, per int }

const (
	headRows  = 256     // of a piece at least: fewer would pack the weight too often for what they multiply
	headBytes = 1 << 20 // of its logits at least: what caches hold costs nothing
)

func (o headOp) cut(x, w tensor.Spec) headCut {
	rows, k := matrix(x, 1)
	c := headCut{rows: rows, k: k, classes: w.Dim(0)}
	row := max(1, c.classes*x.DType.Size())
	most := max(1, int(o.bytes)/row) // rows that the bound allows
	c.per = min(most, max(headRows, headBytes/row))
	if c.per >= rows {
		c.per = max(1, rows)
		return c
	}
	for _, unit := range []int{kernel.GEMMDepth(rows), kernel.GEMMRows} { // bits of dw; whole tiles
		if c.per >= unit {
			c.per -= c.per % unit
			break
		}
	}
	return c
}

// pieces is how many there are: without rows one, which makes zeros.
func (c *headCut) pieces() int { return max(1, (c.rows+c.per-1)/c.per) }

// piece gives the rows of piece i.
func (c *headCut) piece(i int) (lo, hi int) { return i * c.per, min(c.rows, (i+1)*c.per) }

// sizes are the numbers of rows that pieces have: those of all but the last, and of the last.
func (c *headCut) sizes() [2]int { return [2]int{c.per, c.rows - (c.pieces()-1)*c.per} }

// The shared scratch holds, of a piece, the logits, the log-sum-exp of each row, the partial sums of the losses, and what a
// product wants or the sums of the gradient of the bias.
func (c *headCut) shared(dt tensor.DType) (logits, lse, parts int64) {
	up := func(n int) int64 { return (int64(n) + 63) &^ 63 }
	return up(c.per * c.classes * dt.Size()), up(c.per * dt.Size()), up(kernel.RowChunks(c.per, c.classes) * kernel.CrossEntropyPart * 8)
}

// losses raises what is asked for to what Forward wants.
func (c *headCut) losses(dt tensor.DType, scratch, shared *int64, chunks *int) {
	logits, lse, parts := c.shared(dt)
	var room int64
	for _, m := range c.sizes() {
		gemmWork(scratch, &room, chunks, 1, m, c.classes, c.k, dt)
		*chunks = max(*chunks, kernel.RowChunks(m, c.classes))
	}
	*shared = max(*shared, logits+lse+parts+room)
}

// gradients raises what is asked for to what the gradients want, the logits included.
func (c *headCut) gradients(dt tensor.DType, bias bool, scratch, shared *int64, chunks *int) {
	c.losses(dt, scratch, shared, chunks)
	var room int64
	for _, m := range c.sizes() {
		gemmWork(scratch, &room, chunks, 1, m, c.k, c.classes, dt)
		gemmWork(scratch, &room, chunks, 1, c.classes, c.k, m, dt)
		if bias {
			columnSumsWork(&room, chunks, m, c.classes)
		}
	}
	logits, lse, parts := c.shared(dt)
	*shared = max(*shared, logits+lse+parts+room)
}

// head is one call at work.
type head[T kernel.Float, I kernel.Index] struct {
	headCut
	r          *autograd.Run
	x, w, bias []T
	targets    []I
	loss       kernel.CrossEntropyOptions[T]

	logits []T // of a piece, then their gradients
	lse    []T
	parts  []float64
	room   []byte // of a product or of sums

	g     []T     // the gradient of each row's loss,
	scale float64 // times this; g nil: this alone
	dx    []T     // nil: not wanted
	dw    []T
	db    *tensor.Tensor
	add   [3]bool // dx, dw and db hold something to add to
}

// open cuts the shared scratch up.
func (h *head[T, I]) open(r *autograd.Run, dt tensor.DType) {
	h.r = r
	mem := r.Shared()
	next := func(n int64) (piece []byte) {
		piece, mem = mem[:n:n], mem[n:]
		return piece
	}
	logits, lse, parts := h.shared(dt)
	h.logits, h.lse, h.parts = kernel.View[T](next(logits)), kernel.View[T](next(lse)), kernel.View[float64](next(parts))
	h.room = mem
}

// product makes the logits of rows [lo, hi).
func (h *head[T, I]) product(lo, hi int) {
	gemm(h.r, h.room, kernel.GEMM[T]{
		M: hi - lo, N: h.classes, K: h.k,
		A: h.x[lo*h.k : hi*h.k], LDA: h.k,
		B: h.w, LDB: h.k, TransB: true,
		C: h.logits, LDC: h.classes,
		Bias: h.bias,
	})
}

// forward fills losses and lse, each unless nil, and gives the sum of the losses. With sweep it goes on to the gradients.
func (h *head[T, I]) forward(losses, lse []T, sweep bool) (sum float64) {
	for i := range h.pieces() {
		lo, hi := h.piece(i)
		h.product(lo, hi)
		row := h.lse
		if lse != nil {
			row = lse[lo:hi]
		}
		h.lossRows(lo, hi, kernel.Cut(losses, lo, hi), row, sweep)
		s, _, _ := kernel.CrossEntropyFinish(h.parts, hi-lo, h.classes)
		sum += s
		if sweep {
			h.spread(i)
		}
	}
	return sum
}

// lossRows makes the losses and lse of rows [lo, hi) and, with sweep, gradients of the logits.
func (h *head[T, I]) lossRows(lo, hi int, losses, lse []T, sweep bool) {
	n, v := hi-lo, h.classes
	h.r.Par(kernel.RowChunks(n, v), func(_, c int) {
		a, b := kernel.RowRange(n, v, c)
		z, targets, k := h.logits[a*v:b*v], h.targets[lo+a:lo+b], h.loss
		kernel.CrossEntropy(h.parts[c*kernel.CrossEntropyPart:], kernel.Cut(losses, a, b), lse[a:b], z, targets, v, &k)
		if sweep {
			kernel.CrossEntropyBackward(z, false, nil, h.scale, z, lse[a:b], targets, v, &k)
		}
	})
}

// backward makes the gradients; lse is that of all rows.
func (h *head[T, I]) backward(lse []T) {
	for i := range h.pieces() {
		lo, hi := h.piece(i)
		h.product(lo, hi)
		n, v := hi-lo, h.classes
		h.r.Par(kernel.RowChunks(n, v), func(_, c int) {
			a, b := kernel.RowRange(n, v, c)
			z, k := h.logits[a*v:b*v], h.loss
			kernel.CrossEntropyBackward(z, false, kernel.Cut(h.g, lo+a, lo+b), h.scale, z, lse[lo+a:lo+b], h.targets[lo+a:lo+b], v, &k)
		})
		h.spread(i)
	}
}

// spread takes the gradients of the logits of piece i on to x, w and the bias.
func (h *head[T, I]) spread(i int) {
	lo, hi := h.piece(i)
	if h.dx != nil {
		gemm(h.r, h.room, kernel.GEMM[T]{
			M: hi - lo, N: h.k, K: h.classes,
			A: h.logits, LDA: h.classes,
			B: h.w, LDB: h.k,
			C: h.dx[lo*h.k : hi*h.k], LDC: h.k, Add: h.add[0],
		})
	}
	if h.dw != nil {
		gemm(h.r, h.room, kernel.GEMM[T]{
			M: h.classes, N: h.k, K: hi - lo,
			A: h.logits, LDA: h.classes, TransA: true,
			B: h.x[lo*h.k : hi*h.k], LDB: h.k,
			C: h.dw, LDC: h.k, Add: h.add[1] || i > 0,
		})
	}
	if h.db != nil {
		columnSums(h.r, h.room, h.db, h.add[2] || i > 0, h.logits[:(hi-lo)*h.classes], h.classes)
	}
}
