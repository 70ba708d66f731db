package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// Products of tensors of any float dtype. Half types are widened as they are packed, and results rounded once: no operand
// is ever in float32 as a whole. Under autocast a parameter in float32 stands beside halves, and counts as rounded to their
// type.

// mat is a matrix in a tensor: from its first element on, rows ld elements apart, or columns if the transpose is stored.
type mat struct {
	t     *tensor.Tensor
	ld    int
	trans bool
}

// multiplication is c = a b + bias, or is added to c. What comes of it goes through the epilogue, which may read with.
type multiplication struct {
	m, n, k  int
	a, b, c  mat
	add      bool
	bias     *tensor.Tensor // or nil
	epilogue kernel.Epilogue
	with     mat
}

// dtypes are those of the three matrices of a product.
type dtypes [3]tensor.DType

func isHalf(dt tensor.DType) bool { return dt == tensor.Float16 || dt == tensor.BFloat16 }

// half is the half type among them, or else Float32.
func (d dtypes) half() tensor.DType {
	for i := range d {
		if isHalf(d[i]) {
			return d[i]
		}
	}
	return tensor.Float32
}

// kernelWork is what a call of Par wants.
type kernelWork struct {
	scratch, shared *int64
	chunks          *int
}

func forwardWork(sh *autograd.Shapes) kernelWork {
	return kernelWork{&sh.Scratch, &sh.Shared, &sh.Chunks}
}

func backwardWork(sh *autograd.Shapes) kernelWork {
	return kernelWork{&sh.BwdScratch, &sh.BwdShared, &sh.BwdChunks}
}

// products raises what is asked for to what products of m x k by k x n want. There are as many as fill batch matrices c;
// summed says that more than one is added up in each.
func (w kernelWork) products(batch int, summed bool, m, n, k int, dts dtypes) {
	if dts.half() == tensor.Float32 {
		gemmWork(w.scratch, w.shared, w.chunks, batch, m, n, k, dts[2])
		return
	}
	half := isHalf(dts[2])
	if s := mixedStaging(m, n, k, half, summed); s.Stages() > 0 {
		*w.scratch = max(*w.scratch, kernel.MixedGEMMStageScratch(m, n, k))
		stagedWork(w.scratch, w.shared, w.chunks, &s, tensor.Float32)
		return
	}
	*w.scratch = max(*w.scratch, kernel.MixedGEMMScratch(m, n, k))
	*w.chunks = max(*w.chunks, batch*mixedTiles(batch, m, n, k))
}

// mixedStaging is how a product of halves is computed in stages; half tells whether C is of a half type too. Those whose sum
// is rounded once have none.
func mixedStaging(m, n, k int, half, summed bool) (s kernel.Staging) {
	if half && summed {
		return s
	}
	return kernel.MixedGEMMStaging(m, n, k, half)
}

// mixedTiles is gemmTiles of halves.
func mixedTiles(batch, m, n, k int) int {
	if n := kernel.MixedGEMMChunks(m, n, k); batch < wantProducts {
		return n
	}
	return min(1, m*n)
}

// multiply computes one product. The engine holds what products had asked for.
func multiply(r *autograd.Run, p *multiplication) {
	if p.dtypes().half() != tensor.Float32 {
		g := p.mixed()
		multiplyMixed(r, &g)
		return
	}
	if p.c.t.DType() == tensor.Float32 {
		gemm(r, r.Shared(), floats[float32](p))
		return
	}
	gemm(r, r.Shared(), floats[float64](p))
}

func (p *multiplication) dtypes() dtypes {
	return dtypes{p.a.t.DType(), p.b.t.DType(), p.c.t.DType()}
}

// floats is p as kernels see it where all is of one type.
func floats[T interface {
	kernel.Float
	tensor.Elem
}](p *multiplication) kernel.GEMM[T] {
	g := kernel.GEMM[T]{
		M: p.m, N: p.n, K: p.k, Add: p.add,
		A: tensor.Raw[T](p.a.t), LDA: p.a.ld, TransA: p.a.trans,
		B: tensor.Raw[T](p.b.t), LDB: p.b.ld, TransB: p.b.trans,
		C: tensor.Raw[T](p.c.t), LDC: p.c.ld,
	}
	if p.bias != nil {
		g.Bias = tensor.Data[T](p.bias)
	}
	if g.Epilogue = p.epilogue; p.with.t != nil {
		g.With, g.LDW = tensor.Raw[T](p.with.t), p.with.ld
	}
	return g
}

// mixed is p as kernels see it where there are halves.
func (p *multiplication) mixed() kernel.MixedGEMM {
	dts := p.dtypes()
	half := operand.HalfOf(dts.half())
	g := kernel.MixedGEMM{M: p.m, N: p.n, K: p.k, Add: p.add, A: p.a.mixed(half), B: p.b.mixed(half), C: p.c.mixed(half)}
	if p.bias != nil {
		g.Bias = mat{t: p.bias}.mixed(half)
	}
	if g.Epilogue = p.epilogue; p.with.t != nil {
		g.With = p.with.mixed(half)
	}
	return g
}

func (x mat) mixed(half kernel.Half) kernel.Mixed {
	k := kernel.Mixed{Half: half, LD: x.ld, Trans: x.trans}
	if x.t.DType() == tensor.Float32 {
		k.Float, k.Round = tensor.Raw[float32](x.t), true
	} else {
		k.Bits = operand.Words[uint16](x.t).Data
	}
	return k
}

func multiplyMixed(r *autograd.Run, g *kernel.MixedGEMM) {
	if s := mixedStaging(g.M, g.N, g.K, g.C.Bits != nil, false); s.Stages() > 0 {
		mixedStages(r, *g)
		return
	}
	chunks := kernel.MixedGEMMChunks(g.M, g.N, g.K)
	if chunks == 1 {
		g.Chunk(r.Lane(0), 0)
		return
	}
	mixedPar(r, chunks, *g)
}

// mixedPar is apart from multiplyMixed so that g moves to the heap only here.
func mixedPar(r *autograd.Run, chunks int, g kernel.MixedGEMM) {
	r.Par(chunks, func(lane, c int) { g.Chunk(r.Lane(lane), c) })
}

func mixedStages(r *autograd.Run, g kernel.MixedGEMM) {
	stage, s := 0, g.Staging()
	run := func(lane, c int) { g.Stage(r.Shared(), r.Lane(lane), stage, c) }
	for n := s.Stages(); stage < n; stage++ {
		r.Par(s.Chunks(stage), run)
	}
}

// sumColumns fills dst, of cols elements, with the sums of the columns of g, or adds them: the gradient of a bias. Infer has
// called columnSumsWork.
func sumColumns(r *autograd.Run, dst *tensor.Tensor, add bool, g *tensor.Tensor, cols int) {
	switch dt := g.DType(); {
	case isHalf(dt):
		sumHalfColumns(r, dst, add, g, cols)
	case dt == tensor.Float32:
		columnSums(r, r.Shared(), dst, add, tensor.Data[float32](g), cols)
	default:
		columnSums(r, r.Shared(), dst, add, tensor.Data[float64](g), cols)
	}
}

// sumHalfColumns is sumColumns of halves.
func sumHalfColumns(r *autograd.Run, dst *tensor.Tensor, add bool, g *tensor.Tensor, cols int) {
	p := columnSumsPlan(g.Elems()/max(1, cols), cols)
	sumHalves(r, &p, dst, add, g)
}

// sumHalves sums g, of a half type, as p says: in float64, rounded to float32 and then once to dst's type. Shared scratch
// holds what p wants.
func sumHalves(r *autograd.Run, p *kernel.SumTo, dst *tensor.Tensor, add bool, g *tensor.Tensor) {
	half, src := operand.Half(g)
	s := kernel.MixedSum{SumTo: p, Half: half, SrcBits: src.Data, Add: add}
	if dst.DType() == tensor.Float32 {
		s.Dst = operand.Of[float32](dst)
	} else {
		_, s.DstBits = operand.Half(dst)
	}
	parts := kernel.View[float64](r.Shared())
	r.Par(p.Chunks(), func(_, c int) { s.Part(parts, c) })
	s.Finish(parts)
}

// halfOf is the half type of t.
func halfOf(t *tensor.Tensor) kernel.Half { return operand.HalfOf(t.DType()) }
