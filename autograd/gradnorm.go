package autograd

import (
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/memory"
)

// WithGradNorms has the pass read each parameter's gradient when it has got its last share, for Param.GradSquares: whoever
// clips by a norm, or looks for overflow, then need not read it again. It is for the last pass of an update, since the next
// one makes it void. A gradient on its way to a Home is read before it goes.
func WithGradNorms() BackwardOption { return func(p *pass) { p.norms = true } }

// GradSquares is the gradient's sum of squares, of float64 and in one fixed order, if a pass has taken it (WithGradNorms) and
// the gradient is still the same. Of a dtype other than Float64 it is finite exactly if the gradient is. In a dry run it is 0.
func (p *Param) GradSquares() (sum float64, known bool) {
	return p.squares, p.HasGrad() && p.squaredAt == p.gradVersion
}

// square reads the gradient that par has got.
func (p *pass) square(par *Param) {
	g := par.grad
	n := g.Elems()
	chunks := kernel.Chunks(n)
	par.squares = 0
	p.ss.leave()
	p.s.Run(memory.Site{Op: "gradnorm", Scope: par.name}, Work{Shared: 8 * int64(chunks), Chunks: chunks}, func(r *Run) {
		sums := kernel.View[float64](r.Shared())
		r.Par(chunks, func(_, c int) {
			lo, hi := kernel.Range(n, c)
			sums[c] = operand.SumSquares(&g, lo, hi)
		})
		par.squares = kernel.SumParts(sums)
	})
	p.ss.enter("backward", par.name)
}
