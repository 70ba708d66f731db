package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// matmul: y[... M N] = a[... M K] b[... K N], torch.matmul. The leading dimensions are a batch and broadcast. An a of one
// dimension is a row, a b of one dimension a column, and y then lacks that dimension.
//
//	da = g b^T        db = a^T g        each summed over the batch entries that the operand was repeated for
//
// The sum over repeated entries is taken in their order, straight in the destination: a tile of da belongs to one chunk,
// which multiplies for one entry after the other. A b without a batch is one product over all rows of a, as in linear.
//
// Saved: a only if b wants a gradient, b only if a does.

// MatMul gives the matrix product of a and b, of one dtype, Float32 or Float64: [M K] by [K N] gives [M N]; leading
// dimensions broadcast; [K] counts as a row on the left and as a column on the right, and the result lacks the dimension
// that was added. Saved are a, if b requires a gradient, and b, if a does.
func MatMul(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, matMulOp{}, a, b)
}

type matMulOp struct{}

var matMulRule = &autograd.Rule{Name: "matmul", Reads: [][]autograd.Ref{{autograd.In(1)}, {autograd.In(0)}}}

func (matMulOp) Rule() *autograd.Rule { return matMulRule }

func (matMulOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if err := wantFloats(in...); err != nil {
		return err
	}
	a, b := in[0], in[1]
	switch {
	case a.Rank() < 1 || b.Rank() < 1 || a.Dim(-1) != b.Dim(max(-2, -b.Rank())):
		return fmt.Errorf("want [... M K] and [... K N], or [K] for either")
	case max(a.Rank(), b.Rank()) > kernel.MaxRank:
		return fmt.Errorf("want at most %d dimensions", kernel.MaxRank)
	}
	batch, err := tensor.BroadcastShapes(batchOf(a.Shape), batchOf(b.Shape))
	if err != nil {
		return fmt.Errorf("the batch dimensions do not fit: %w", err)
	}
	addProduct(sh, batch, a, b)
	p := planMatMul(a.Shape, b.Shape)
	gemmWork(&sh.Scratch, &sh.Chunks, p.count(both), p.m, p.n, p.k, a.DType)
	gemmWork(&sh.BwdScratch, &sh.BwdChunks, p.count(left), p.m, p.k, p.n, a.DType)
	gemmWork(&sh.BwdScratch, &sh.BwdChunks, p.count(right), p.k, p.n, p.m, a.DType)
	return nil
}

// batchOf is the leading dimensions of a matrix operand.
func batchOf(shape []int) []int { return shape[:max(0, len(shape)-2)] }

// addProduct appends the output: the batch, the rows of a and the columns of b, unless there is only one vector of them.
func addProduct(sh *autograd.Shapes, batch []int, a, b tensor.Spec) {
	switch {
	case a.Rank() == 1 && b.Rank() == 1:
		addShape(sh, a.DType, batch)
	case a.Rank() == 1:
		addShape(sh, a.DType, batch, b.Dim(-1))
	case b.Rank() == 1:
		addShape(sh, a.DType, batch, a.Dim(-2))
	default:
		addShape(sh, a.DType, batch, a.Dim(-2), b.Dim(-1))
	}
}

// role is one of the three batches of matrices in a product.
type role int

const (
	left  role = iota // a and its gradient
	right             // b and its gradient
	both              // y and its gradient
)

// matMulPlan is what the two shapes say: the sizes of one product, and the batch dimensions of each role, which are 1
// where that operand is repeated. rank 0: there is one product.
type matMulPlan struct {
	m, n, k int
	rank    int
	batch   [3][kernel.MaxRank]int
}

// planMatMul expects shapes that Infer has checked.
func planMatMul(a, b []int) (p matMulPlan) {
	p.m, p.n, p.k = 1, 1, a[len(a)-1]
	if len(a) > 1 {
		p.m = a[len(a)-2]
	}
	if len(b) > 1 {
		p.n = b[len(b)-1]
	}
	a, b = batchOf(a), batchOf(b)
	if product(b) == 1 {
		p.m *= product(a)
		return p
	}
	p.rank = max(len(a), len(b))
	for d := range p.rank {
		l, r := sizeAt(a, d-p.rank), sizeAt(b, d-p.rank)
		p.batch[left][d], p.batch[right][d], p.batch[both][d] = l, r, l
		if l == 1 {
			p.batch[both][d] = r
		}
	}
	return p
}

// sizeAt is the size of dimension d, counted from the end and negative, or 1 if there is none.
func sizeAt(shape []int, d int) int {
	if d += len(shape); d >= 0 {
		return shape[d]
	}
	return 1
}

// count is how many matrices of a role there are.
func (p *matMulPlan) count(of role) int { return product(p.batch[of][:p.rank]) }

// matrix is which matrix of a role product i has.
func (p *matMulPlan) matrix(i int, of role) int {
	at, step := 0, 1
	for d := p.rank - 1; d >= 0; d-- {
		all, n := p.batch[both][d], p.batch[of][d]
		if n == all {
			at += i % all * step
		}
		i /= all
		step *= n
	}
	return at
}

// user is the r-th of the products that have matrix j of a role.
func (p *matMulPlan) user(j, r int, of role) int {
	i, step := 0, 1
	for d := p.rank - 1; d >= 0; d-- {
		all, rest := p.batch[both][d], &r
		if p.batch[of][d] == all {
			rest = &j
		}
		i += *rest % all * step
		*rest /= all
		step *= all
	}
	return i
}

func (matMulOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), matMulForward[float32], matMulForward[float64])(f)
}

func matMulForward[T kernel.Float](f *autograd.Fwd) {
	p := planMatMul(f.In[0].Shape(), f.In[1].Shape())
	products(&f.Run, p, left, right, both, kernel.GEMM[T]{
		M: p.m, N: p.n, K: p.k,
		A: tensor.Data[T](&f.In[0]), LDA: p.k,
		B: tensor.Data[T](&f.In[1]), LDB: p.n,
		C: tensor.Data[T](&f.Out[0]), LDC: p.n,
	})
}

func (matMulOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, matMulBackward[float32], matMulBackward[float64])(b)
}

func matMulBackward[T kernel.Float](b *autograd.Bwd) {
	p := planMatMul(b.InSpec(0).Shape, b.InSpec(1).Shape)
	g := tensor.Data[T](b.Grad(0))
	if da, add := b.Into(0); da != nil {
		products(&b.Run, p, both, right, left, kernel.GEMM[T]{
			M: p.m, N: p.k, K: p.n,
			A: g, LDA: p.n,
			B: tensor.Data[T](b.In(1)), LDB: p.n, TransB: true,
			C: tensor.Data[T](da), LDC: p.k, Add: add,
		})
	}
	if db, add := b.Into(1); db != nil {
		products(&b.Run, p, left, both, right, kernel.GEMM[T]{
			M: p.k, N: p.n, K: p.m,
			A: tensor.Data[T](b.In(0)), LDA: p.k, TransA: true,
			B: g, LDB: p.n,
			C: tensor.Data[T](db), LDC: p.n, Add: add,
		})
	}
}

// products computes each matrix of C, whose role is c, as the sum over the products that have it. The operands of g are
// whole batches of roles a and b.
func products[T kernel.Float](r *autograd.Run, p matMulPlan, a, b, c role, g kernel.GEMM[T]) {
	if p.rank == 0 {
		gemm(r, g)
		return
	}
	users := p.count(both) / max(1, p.count(c))
	if users == 0 && !g.Add {
		clear(g.C)
	}
	productsPar(r, p, a, b, c, g, users)
}

func productsPar[T kernel.Float](r *autograd.Run, p matMulPlan, a, b, c role, g kernel.GEMM[T], users int) {
	tiles := kernel.GEMMChunks(g.M, g.N, g.K)
	r.Par(p.count(c)*tiles, func(lane, chunk int) {
		j, one := chunk/tiles, g
		one.C = part(g.C, j, g.M*g.N)
		for u := range users {
			i := p.user(j, u, c)
			one.A = part(g.A, p.matrix(i, a), g.M*g.K)
			one.B = part(g.B, p.matrix(i, b), g.K*g.N)
			one.Chunk(r.Lane(lane), chunk%tiles)
			one.Add = true
		}
	})
}
