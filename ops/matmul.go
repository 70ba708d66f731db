package ops

import (
	"errors"
	"fmt"
	"slices"

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
// Matrices may lie by rows or by columns, with any distance between them, and gradients are written there too: transposed
// and permuted views cost no copy, as long as one of the last two dimensions has stride 1.
//
// Saved: a only if b wants a gradient, b only if a does.

// MatMul gives the matrix product of a and b, of one dtype, a float dtype: [M K] by [K N] gives [M N]; leading
// dimensions broadcast; [K] counts as a row on the left and as a column on the right, and the result lacks the dimension
// that was added. Saved are a, if b requires a gradient, and b, if a does. Views are read where they lie if rows or columns
// have no gaps; of one b for a batch of a, also the rows of all of a must be equally far apart.
func MatMul(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, matMulOp{}, a, b)
}

type matMulOp struct{}

var matMulRule = &autograd.Rule{Name: "matmul", Cast: autograd.CastLow, Dear: true, Halves: true, Reads: [][]autograd.Ref{{autograd.In(1)}, {autograd.In(0)}}}

func (matMulOp) Rule() *autograd.Rule { return matMulRule }

func (matMulOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	dt, err := wantFactors(in...)
	if err != nil {
		return err
	}
	a, b := in[0], in[1]
	if a.Rank() < 1 || b.Rank() < 1 || a.Dim(-1) != b.Dim(max(-2, -b.Rank())) {
		return errors.New("want [... M K] and [... K N], or [K] for either")
	}
	batch, err := tensor.BroadcastShapes(batchOf(a.Shape), batchOf(b.Shape))
	if err != nil {
		return fmt.Errorf("the batch dimensions do not fit: %w", err)
	}
	if err := wantRank(batch); err != nil {
		return err
	}
	addProduct(sh, dt, batch, a, b)
	p := planMatMul(a.Shape, b.Shape)
	forwardWork(sh).products(p.count(both), false, p.m, p.n, p.k, dtypes{a.DType, b.DType, dt})
	da, db := dtypes{dt, b.DType, a.DType}, dtypes{a.DType, dt, b.DType}
	bwd := backwardWork(sh)
	for _, turned := range []bool{false, true} { // a gradient that lies by columns is computed transposed
		m, k, n := p.m, p.k, p.n
		if turned {
			bwd.products(p.count(left), p.users(left) > 1, k, m, n, da)
			bwd.products(p.count(right), p.users(right) > 1, n, k, m, db)
			continue
		}
		bwd.products(p.count(left), p.users(left) > 1, m, k, n, da)
		bwd.products(p.count(right), p.users(right) > 1, k, n, m, db)
	}
	return nil
}

// Takes tells whether the matrices of a or b can be worked on where they lie.
func (matMulOp) Takes(in []tensor.Spec, i int, t *tensor.Tensor) bool {
	p := planMatMul(in[0].Shape, in[1].Shape)
	return p.see(role(i), t)
}

// batchOf is the leading dimensions of a matrix operand.
func batchOf(shape []int) []int { return shape[:max(0, len(shape)-2)] }

// addProduct appends the output: the batch, the rows of a and the columns of b, unless there is only one vector of them.
func addProduct(sh *autograd.Shapes, dt tensor.DType, batch []int, a, b tensor.Spec) {
	switch {
	case a.Rank() == 1 && b.Rank() == 1:
		addShape(sh, dt, batch)
	case a.Rank() == 1:
		addShape(sh, dt, batch, b.Dim(-1))
	case b.Rank() == 1:
		addShape(sh, dt, batch, a.Dim(-2))
	default:
		addShape(sh, dt, batch, a.Dim(-2), b.Dim(-1))
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
// where that operand is repeated. rank 0: there is one product. lies is where the matrices of each role lie, once see has
// looked.
type matMulPlan struct {
	m, n, k int
	rank    int
	batch   [3][kernel.MaxRank]int
	lies    [3]lying
}

// lying says where matrices lie: ld elements from one row to the next, or from one column to the next, and as many as
// step says from one entry of a batch dimension to the next, none where the operand is repeated.
type lying struct {
	ld      int
	columns bool
	step    [kernel.MaxRank]int
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

// users is how many products have each of them.
func (p *matMulPlan) users(of role) int { return p.count(both) / max(1, p.count(of)) }

// see finds where the matrices of a role lie in t, and tells whether products can work on them there.
func (p *matMulPlan) see(of role, t *tensor.Tensor) bool {
	l, shape := &p.lies[of], t.Shape()
	n := len(shape)
	rows, cols, down, along := 1, 1, 0, 0 // sizes and strides of a matrix
	switch {
	case n == 1 && of == left:
		cols, along = shape[0], t.Stride(0)
	case n == 1:
		rows, down = shape[0], t.Stride(0)
	default:
		rows, cols, down, along = shape[n-2], shape[n-1], t.Stride(n-2), t.Stride(n-1)
	}
	batch := batchOf(shape)
	for d := range p.rank {
		if k := d - p.rank + len(batch); k >= 0 && batch[k] > 1 {
			l.step[d] = t.Stride(k)
		}
	}
	if p.rank == 0 {
		for k, size := range slices.Backward(batch) { // all rows are those of one matrix
			switch {
			case size == 1:
			case rows == 1:
				rows, down = size, t.Stride(k)
			case t.Stride(k) != rows*down:
				return false
			default:
				rows *= size
			}
		}
	}
	return l.matrix(rows, cols, down, along)
}

// matrix sets how a matrix with these strides lies, if it is by rows or by columns.
func (l *lying) matrix(rows, cols, down, along int) bool {
	l.ld, l.columns = max(down, cols), false
	if (cols <= 1 || along == 1) && (rows <= 1 || down >= cols) {
		return true
	}
	l.ld, l.columns = max(along, rows), true
	return (rows <= 1 || down == 1) && (cols <= 1 || along >= rows)
}

// seeProducts is see for y and its gradient, which are contiguous.
func (p *matMulPlan) seeProducts() {
	l := &p.lies[both]
	l.ld = p.n
	step := p.m * p.n
	for d := p.rank - 1; d >= 0; d-- {
		l.step[d] = step
		step *= p.batch[both][d]
	}
}

// offset is where the matrix of a role that product i has starts.
func (p *matMulPlan) offset(i int, of role) (at int) {
	for d := p.rank - 1; d >= 0; d-- {
		all := p.batch[both][d]
		at += i % all * p.lies[of].step[d]
		i /= all
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
	p := planMatMul(f.In[0].Shape(), f.In[1].Shape())
	p.seeProducts()
	p.see(left, &f.In[0])
	p.see(right, &f.In[1])
	p.multiply(&f.Run, matrices{t: &f.In[0], of: left}, matrices{t: &f.In[1], of: right}, matrices{t: &f.Out[0], of: both}, false)
}

func (matMulOp) Backward(b *autograd.Bwd) {
	p := planMatMul(b.InSpec(0).Shape, b.InSpec(1).Shape)
	p.seeProducts()
	g := matrices{t: b.Grad(0), of: both}
	if da, add := b.Into(0); da != nil {
		p.see(left, da)
		p.see(right, b.In(1))
		p.multiply(&b.Run, g, matrices{t: b.In(1), of: right}.turn(), matrices{t: da, of: left}, add || p.unused(da))
	}
	if db, add := b.Into(1); db != nil {
		p.see(right, db)
		p.see(left, b.In(0))
		p.multiply(&b.Run, matrices{t: b.In(0), of: left}.turn(), g, matrices{t: db, of: right}, add || p.unused(db))
	}
}

// unused tells whether there are no products at all, and makes the gradient zero then.
func (p *matMulPlan) unused(dst *tensor.Tensor) bool {
	if p.count(both) > 0 {
		return false
	}
	fill(*dst, 0)
	return true
}

// matrices are all that have a role, in a tensor that see has looked at, or their transposes.
type matrices struct {
	t      *tensor.Tensor
	of     role
	turned bool
}

func (x matrices) turn() matrices {
	x.turned = !x.turned
	return x
}

// size of a matrix of x.
func (x matrices) size(p *matMulPlan) (rows, cols int) {
	switch x.of {
	case left:
		rows, cols = p.m, p.k
	case right:
		rows, cols = p.k, p.n
	default:
		rows, cols = p.m, p.n
	}
	if x.turned {
		return cols, rows
	}
	return rows, cols
}

// mat is the first matrix of x.
func (x matrices) mat(p *matMulPlan) mat {
	l := &p.lies[x.of]
	return mat{x.t, l.ld, l.columns != x.turned}
}

// multiply computes each matrix of c as the sum over the products a b that have it. A c that lies by columns is computed
// as b^T a^T.
func (p *matMulPlan) multiply(r *autograd.Run, a, b, c matrices, add bool) {
	if p.lies[c.of].columns {
		a, b = b.turn(), a.turn()
	}
	x := multiplication{a: a.mat(p), b: b.mat(p), c: mat{c.t, p.lies[c.of].ld, false}, add: add}
	x.m, x.k = a.size(p)
	_, x.n = b.size(p)
	if p.rank == 0 {
		multiply(r, &x)
		return
	}
	roles := [3]role{a.of, b.of, c.of}
	switch {
	case x.dtypes().half() != tensor.Float32:
		mixedProducts(r, *p, roles, x.mixed())
	case c.t.DType() == tensor.Float32:
		products(r, *p, roles, floats[float32](&x))
	default:
		products(r, *p, roles, floats[float64](&x))
	}
}

// products computes a batch of products, in chunks of c's matrices or, where matrices are large, one after the other.
func products[T kernel.Float](r *autograd.Run, p matMulPlan, of [3]role, g kernel.GEMM[T]) {
	matrices, users := p.count(of[2]), p.users(of[2])
	// one is what the u-th user adds to matrix j.
	one := func(j, u int) kernel.GEMM[T] {
		x, i := g, p.user(j, u, of[2])
		x.A, x.B, x.C = g.A[p.offset(i, of[0]):], g.B[p.offset(i, of[1]):], g.C[p.offset(i, of[2]):]
		x.Add = g.Add || u > 0
		return x
	}
	if s := g.Staging(); s.Stages() > 0 {
		for i := range matrices * users {
			gemmStages(r, r.Shared(), one(i/users, i%users))
		}
		return
	}
	tiles := gemmTiles(matrices, g.M, g.N, g.K)
	r.Par(matrices*tiles, func(lane, chunk int) {
		for u := range users {
			x := one(chunk/tiles, u)
			if tiles == 1 {
				x.Whole(r.Lane(lane))
				continue
			}
			x.Chunk(r.Lane(lane), chunk%tiles)
		}
	})
}

// mixedProducts is products of halves. What several users add to a matrix is summed in float32, a tile at a time.
func mixedProducts(r *autograd.Run, p matMulPlan, of [3]role, g kernel.MixedGEMM) {
	matrices, users := p.count(of[2]), p.users(of[2])
	if s := mixedStaging(g.M, g.N, g.K, g.C.Bits != nil, users > 1); s.Stages() > 0 {
		for i := range matrices * users {
			at := p.user(i/users, i%users, of[2])
			x := g
			x.A, x.B, x.C = g.A.From(p.offset(at, of[0])), g.B.From(p.offset(at, of[1])), g.C.From(p.offset(at, of[2]))
			x.Add = g.Add || i%users > 0
			mixedStages(r, x)
		}
		return
	}
	if users == 0 {
		return // unused has put zeros there
	}
	tiles, all := mixedTiles(matrices, g.M, g.N, g.K), kernel.MixedGEMMChunks(g.M, g.N, g.K)
	r.Par(matrices*tiles, func(lane, chunk int) {
		j := chunk / tiles
		x := g
		x.C = g.C.From(p.offset(p.user(j, 0, of[2]), of[2]))
		lo, hi := chunk%tiles, chunk%tiles+1
		if tiles == 1 {
			lo, hi = 0, all
		}
		for c := lo; c < hi; c++ {
			x.Sum(r.Lane(lane), c, users, func(u int) (a, b int) {
				i := p.user(j, u, of[2])
				return p.offset(i, of[0]), p.offset(i, of[1])
			})
		}
	})
}
