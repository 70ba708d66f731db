package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// zero_: y = 0, written over x.
//
//	dx = 0
//
// Saved: nothing.

// Zero sets the elements of x to zero where they lie: torch's zero_. The result takes x's buffer over: x itself must not be
// used afterwards, and nothing may have saved it (see the package comment). x is of any dtype and shape. Its gradient is 0.
func Zero(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, zeroOp{}, x)
}

type zeroOp struct{}

var zeroRule = &autograd.Rule{Name: "zero_", Over: overGrad, Strided: true, Halves: true, InPlace: true}

func (zeroOp) Rule() *autograd.Rule { return zeroRule }

func (zeroOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Like(in[0])
	sh.Chunks = kernel.Chunks(in[0].Elems())
	sh.BwdChunks = sh.Chunks
	return wantRank(in[0].Shape)
}

func (zeroOp) Forward(f *autograd.Fwd) { clearAll(&f.Run, &f.Out[0]) }

func (zeroOp) Backward(b *autograd.Bwd) {
	if dst, add := b.Into(0); !add {
		clearAll(&b.Run, dst)
	}
}

func clearAll(r *autograd.Run, t *tensor.Tensor) {
	switch t.DType().Size() {
	case 1:
		clearWords[uint8](r, t)
	case 2:
		clearWords[uint16](r, t)
	case 4:
		clearWords[uint32](r, t)
	default:
		clearWords[uint64](r, t)
	}
}

func clearWords[W uint8 | uint16 | uint32 | uint64](r *autograd.Run, t *tensor.Tensor) {
	d, n := operand.Words[W](t), t.Elems()
	r.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Clear(d, lo, hi)
	})
}
