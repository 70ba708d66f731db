package ops

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// linear: y[... N] = x[... K] w[N K]^T + b[N]. The bias is added inside the product.
//
//	dx = g w        dw = g^T x        db = the column sums of g
//
// over the rows that the leading dimensions of x and g are.
//
// Saved: x only if w wants a gradient, w only if x does, so a frozen weight keeps no activation.

// Linear gives x w^T + b: x is [... K], w [N K] as torch stores it, b [N] or nil; the result is [... N]. All are of one
// dtype, a float dtype. Saved are x, if w requires a gradient, and w, if x does.
func Linear(s *autograd.Scope, x, w, b *autograd.Value) *autograd.Value {
	if b == nil {
		return autograd.Apply(s, linearOp{}, x, w)
	}
	return autograd.Apply(s, linearOp{bias: true}, x, w, b)
}

// overInput: the gradient of input 0 does not read it, and is made last, when nobody reads it any more.
var overInput = [][]autograd.Ref{{autograd.In(0)}}

type linearOp struct{ bias bool }

var linearRule = &autograd.Rule{Name: "linear", Cast: autograd.CastLow, Dear: true, Reads: [][]autograd.Ref{{autograd.In(1)}, {autograd.In(0)}}, Over: overInput}

func (linearOp) Rule() *autograd.Rule { return linearRule }

func (o linearOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x, w := in[0], in[1]
	if err := wantFloats(in...); err != nil {
		return err
	}
	if x.Rank() < 1 || w.Rank() != 2 || x.Dim(-1) != w.Dim(1) {
		return errors.New("want x [... K] and weight [N K]")
	}
	rows, k := matrix(x, 1)
	n := w.Dim(0)
	addShape(sh, x.DType, x.Shape[:x.Rank()-1], n)
	gemmWork(&sh.Scratch, &sh.Shared, &sh.Chunks, 1, rows, n, k, x.DType)
	gemmWork(&sh.BwdScratch, &sh.BwdShared, &sh.BwdChunks, 1, rows, k, n, x.DType)
	gemmWork(&sh.BwdScratch, &sh.BwdShared, &sh.BwdChunks, 1, n, k, rows, x.DType)
	if !o.bias {
		return nil
	}
	if b := in[2]; b.Rank() != 1 || b.Dim(0) != n {
		return fmt.Errorf("want bias [%d], as many as the weight has rows", n)
	}
	columnSumsWork(&sh.BwdShared, &sh.BwdChunks, rows, n)
	return nil
}

func (linearOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), linearForward[float32], linearForward[float64])(f)
}

func linearForward[T kernel.Float](f *autograd.Fwd) {
	rows, k := matrix(f.In[0].Spec(), 1)
	n := f.In[1].Dim(0)
	gemm(&f.Run, f.Shared(), kernel.GEMM[T]{
		M: rows, N: n, K: k,
		A: tensor.Data[T](&f.In[0]), LDA: k,
		B: tensor.Data[T](&f.In[1]), LDB: k, TransB: true,
		C: tensor.Data[T](&f.Out[0]), LDC: n,
		Bias: input[T](f, 2),
	})
}

func (o linearOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, linearBackward[float32], linearBackward[float64])(o, b)
}

func linearBackward[T kernel.Float](o linearOp, b *autograd.Bwd) {
	rows, k := matrix(b.InSpec(0), 1)
	n := b.InSpec(1).Dim(0)
	g := tensor.Data[T](b.Grad(0))
	input := func() {
		if dx, add := b.Into(0); dx != nil {
			gemm(&b.Run, b.Shared(), kernel.GEMM[T]{
				M: rows, N: k, K: n,
				A: g, LDA: n,
				B: tensor.Data[T](b.In(1)), LDB: k,
				C: tensor.Data[T](dx), LDC: k, Add: add,
			})
		}
	}
	first := meets(b, 1, 2)
	if first {
		input()
	}
	if dw, add := b.Into(1); dw != nil {
		gemm(&b.Run, b.Shared(), kernel.GEMM[T]{
			M: n, N: k, K: rows,
			A: g, LDA: n, TransA: true,
			B: tensor.Data[T](b.In(0)), LDB: k,
			C: tensor.Data[T](dw), LDC: k, Add: add,
		})
	}
	if o.bias {
		if db, add := b.Into(2); db != nil {
			columnSums(&b.Run, b.Shared(), db, add, g, n)
		}
	}
	if !first {
		input()
	}
}

// meets tells whether the gradient of input 0 goes where that of another one goes, which is added to it: then it must be
// made first. Otherwise it may be made last, over what the others read.
func meets(b *autograd.Bwd, others ...int) bool {
	d, _ := b.Into(0)
	for _, i := range others {
		if i >= b.Inputs() || d == nil {
			continue
		}
		if o, _ := b.Into(i); o != nil && o.Buffer() == d.Buffer() {
			return true
		}
	}
	return false
}
