package ops

import (
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// How linear_cross_entropy is cut into pieces, and what memory it works in.
//
// In one sweep a piece has all classes of some rows, for a row's gradient wants its log-sum-exp. Each piece packs the whole
// weight and adds to the whole of its gradient, so rows are as many as the bound allows, up to headRows.
//
// Where forward and backward are apart, a piece has some classes of many rows: forward carries each row's largest logit and
// sum on (kernel.CrossEntropyRange), and backward knows the log-sum-exp. So the weight is packed once for all these rows,
// and its gradient written once for them; what is added to again and again is the gradient of x, which is small, and the logits fit
// in the processor's last cache. The products of all these pieces share the rows of x: where classes are many, they are packed once
// for them, which gains six to nine percent and takes no more memory than the logits.

// headCut is the sizes: x is [rows k], there are so many classes, and a piece has the logits of perRows rows and perClasses
// classes.
type headCut struct {
	rows, k, classes, perRows, perClasses int
	packed                                bool // the rows of x that a piece has are, once for all classes
}

const (
	headRows  = 256     // of a piece with all classes: fewer would pack the weight too often for what they multiply
	headBytes = 1 << 20 // of its logits at least: what caches hold costs nothing

	rangeRows    = 1024 // of a piece with some classes
	rangeClasses = 1024
	packedFrom   = 4096 // classes: with fewer, the rows of x are not packed often
)

func (o headOp) cut(x, w tensor.Spec) headCut {
	rows, k := matrix(x, 1)
	c := headCut{rows: rows, k: k, classes: w.Dim(0), perClasses: w.Dim(0)}
	enough := headRows
	if !o.sweep {
		block := kernel.ClassBlock(c.classes)
		c.perClasses, enough = min(c.classes, max(1, rangeClasses/block)*block), rangeRows
	}
	row := max(1, c.perClasses*x.DType.Size())
	c.cutRows(min(max(1, int(o.bytes)/row), max(enough, headBytes/row)))
	s := kernel.GEMMStaging(c.perRows, c.perClasses, k)
	c.packed = !o.sweep && s.Stages() > 0 && c.classes >= packedFrom && k <= c.perClasses
	return c
}

// logitsStaging is how the logits of a piece are computed, if it is large.
func (c *headCut) logitsStaging(rows, classes int) kernel.Staging {
	s := kernel.GEMMStaging(rows, classes, c.k)
	if c.packed {
		return s.Packed()
	}
	return s
}

// cutRows takes at most so many rows to a piece.
func (c *headCut) cutRows(most int) {
	c.perRows = most
	if c.perRows >= c.rows {
		c.perRows = max(1, c.rows)
		return
	}
	for _, unit := range []int{kernel.GEMMDepth(c.rows), kernel.GEMMRows} { // bits of dw; whole tiles
		if c.perRows >= unit {
			c.perRows -= c.perRows % unit
			break
		}
	}
}

// headPiece is rows [lo, hi) and some classes.
type headPiece struct {
	lo, hi int
	kernel.ClassRange
}

func (p *headPiece) rows() int { return p.hi - p.lo }

// last tells that no classes of these rows come after it.
func (p *headPiece) last() bool { return p.First+p.Cols == p.Classes }

// each calls f for all classes of some rows, piece by piece, then for those of the next. Without rows or classes there is
// one piece, which makes zeros.
func (c *headCut) each(f func(p headPiece)) {
	for i := range parts(c.rows, c.perRows) {
		for j := range parts(c.classes, c.perClasses) {
			first := j * c.perClasses
			f(headPiece{
				lo: i * c.perRows, hi: min(c.rows, (i+1)*c.perRows),
				ClassRange: kernel.ClassRange{First: first, Cols: min(c.perClasses, c.classes-first), Classes: c.classes},
			})
		}
	}
}

// parts is how many parts of at most per there are of n, at least one.
func parts(n, per int) int { return max(1, (n+per-1)/max(1, per)) }

// sizes are those of all parts but the last, and of the last.
func sizes(n, per int) [2]int { return [2]int{per, n - (parts(n, per)-1)*per} }

// atOnce is how many of n terms, of a sum of all, one product adds up so that it has the bits of a product over all: the
// rest, less than a block of terms, is added by another. (A product cuts its terms into blocks of nearly equal length.)
func atOnce(n, all int) int {
	if n >= all {
		return n
	}
	if d := kernel.GEMMDepth(all); n > d && kernel.GEMMDepth(n) != d {
		return n - n%d
	}
	return n
}

// headRoom is how many bytes of shared scratch each thing takes of a piece: the logits, the log-sum-exp and the state of each
// row, and the packed rows of x. What a product wants, or the sums of the gradient of the bias, comes after.
type headRoom struct{ logits, lse, state, packed int64 }

func (c *headCut) room(dt tensor.DType) (r headRoom) {
	up := func(n int) int64 { return (int64(n) + 63) &^ 63 }
	r = headRoom{logits: up(c.perRows * c.perClasses * dt.Size()), lse: up(c.perRows * dt.Size()), state: up(c.perRows * kernel.CrossEntropyState * 8)}
	if c.packed {
		r.packed = kernel.GEMMPackedBytes(c.perRows, c.k, dt.Size())
	}
	return r
}

func (r headRoom) sum() int64 { return r.logits + r.lse + r.state + r.packed }

// eachSize calls f for the sizes that pieces have.
func (c *headCut) eachSize(f func(rows, classes int)) {
	for _, m := range sizes(c.rows, c.perRows) {
		for _, n := range sizes(c.classes, c.perClasses) {
			f(m, n)
		}
	}
}

// losses raises what is asked for to what Forward wants.
func (c *headCut) losses(dt tensor.DType, scratch, shared *int64, chunks *int) {
	var room int64
	c.eachSize(func(m, n int) {
		if s := c.logitsStaging(m, n); s.Stages() > 0 {
			stagedWork(scratch, &room, chunks, &s, dt)
		} else {
			gemmWork(scratch, &room, chunks, 1, m, n, c.k, dt)
		}
		*chunks = max(*chunks, kernel.RowChunks(m, n))
		if c.packed {
			*chunks = max(*chunks, kernel.GEMMPackedChunks(m, c.k))
		}
	})
	r := c.room(dt)
	*shared = max(*shared, r.sum()+room)
}

// gradients raises what is asked for to what the gradients want, the logits included.
func (c *headCut) gradients(dt tensor.DType, bias bool, scratch, shared *int64, chunks *int) {
	c.losses(dt, scratch, shared, chunks)
	var room int64
	c.eachSize(func(m, n int) {
		for _, sum := range [2]int{atOnce(n, c.classes), n - atOnce(n, c.classes)} {
			gemmWork(scratch, &room, chunks, 1, m, c.k, sum, dt)
		}
		for _, sum := range [2]int{atOnce(m, c.rows), m - atOnce(m, c.rows)} {
			gemmWork(scratch, &room, chunks, 1, n, c.k, sum, dt)
		}
		if bias {
			columnSumsWork(&room, chunks, m, n)
		}
	})
	r := c.room(dt)
	*shared = max(*shared, r.sum()+room)
}
