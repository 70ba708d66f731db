package ops

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
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

var linearRule = &autograd.Rule{Name: "linear", Cast: autograd.CastLow, Dear: true, Halves: true, Reads: [][]autograd.Ref{{autograd.In(1)}, {autograd.In(0)}}, Over: overInput}

func (linearOp) Rule() *autograd.Rule { return linearRule }

func (o linearOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x, w := in[0], in[1]
	y, err := wantFactors(in...)
	if err != nil {
		return err
	}
	if x.Rank() < 1 || w.Rank() != 2 || x.Dim(-1) != w.Dim(1) {
		return errors.New("want x [... K] and weight [N K]")
	}
	rows, k := matrix(x, 1)
	n := w.Dim(0)
	addShape(sh, y, x.Shape[:x.Rank()-1], n)
	forwardWork(sh).products(1, false, rows, n, k, dtypes{x.DType, w.DType, y})
	bwd := backwardWork(sh)
	bwd.products(1, false, rows, k, n, dtypes{y, w.DType, x.DType})
	bwd.products(1, false, n, k, rows, dtypes{y, x.DType, w.DType})
	if !o.bias {
		return nil
	}
	if b := in[2]; b.Rank() != 1 || b.Dim(0) != n {
		return fmt.Errorf("want bias [%d], as many as the weight has rows", n)
	}
	columnSumsWork(&sh.BwdShared, &sh.BwdChunks, rows, n)
	return nil
}

func (o linearOp) Forward(f *autograd.Fwd) {
	p := o.product(f)
	multiply(&f.Run, &p)
}

// product is what Forward computes.
func (o linearOp) product(f *autograd.Fwd) multiplication {
	x, w, y := &f.In[0], &f.In[1], &f.Out[0]
	rows, k := matrix(x.Spec(), 1)
	p := multiplication{m: rows, n: w.Dim(0), k: k, a: mat{x, k, false}, b: mat{w, k, true}, c: mat{y, w.Dim(0), false}}
	if o.bias {
		p.bias = &f.In[2]
	}
	return p
}

func (o linearOp) Backward(b *autograd.Bwd) {
	rows, k := matrix(b.InSpec(0), 1)
	n, g := b.InSpec(1).Dim(0), b.Grad(0)
	input := func() {
		if dx, add := b.Into(0); dx != nil {
			multiply(&b.Run, &multiplication{
				m: rows, n: k, k: n, a: mat{g, n, false}, b: mat{b.In(1), k, false}, c: mat{dx, k, false}, add: add,
			})
		}
	}
	first := meets(b, 1, 2)
	if first {
		input()
	}
	if dw, add := b.Into(1); dw != nil {
		multiply(&b.Run, &multiplication{
			m: n, n: k, k: rows, a: mat{g, n, true}, b: mat{b.In(0), k, false}, c: mat{dw, k, false}, add: add,
		})
	}
	if o.bias {
		if db, add := b.Into(2); db != nil {
			sumColumns(&b.Run, db, add, g, n)
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
