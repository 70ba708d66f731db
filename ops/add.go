package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// add: y = a + b over the shape that both broadcast to.
//
//	da = g     db = g     each summed over the dimensions in which the input was repeated
//
// Saved: nothing. The engine hands g on as it is (Pass), so there is no backward kernel.

// Add gives a + b, of the shape that the two broadcast to. Dtypes must be equal: a float dtype, or Int64 and Int32,
// which have no gradients. Nothing is saved.
func Add(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, addOp{}, a, b)
}

// AddInPlace adds b, which must broadcast to a's shape, to a, whose buffer the result takes over: a itself must not be
// used afterwards, and nothing may have saved it. b may be a, but not a view that overlaps it at a shift. Dtypes are
// those of [Add]. Nothing is saved.
func AddInPlace(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, addOp{inPlace: true}, a, b)
}

type addOp struct{ inPlace bool }

var (
	addRule        = &autograd.Rule{Name: "add", Each: true, Cast: autograd.CastWidest, Pass: []bool{true, true}, Broadcast: true}
	addInPlaceRule = &autograd.Rule{Name: "add_", Each: true, Pass: []bool{true, true}, Broadcast: true, InPlace: true}
)

func (o addOp) Rule() *autograd.Rule {
	if o.inPlace {
		return addInPlaceRule
	}
	return addRule
}

func (addOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	switch in[0].DType {
	case tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32:
	default:
		return fmt.Errorf("want a float dtype, int64 or int32, got %s"+dtypeTable, in[0].DType)
	}
	if in[1].DType != in[0].DType {
		return errDTypes
	}
	shape, err := tensor.BroadcastShapes(in[0].Shape, in[1].Shape)
	if err != nil {
		return err
	}
	sh.Like(tensor.Spec{DType: in[0].DType, Shape: shape})
	sh.Chunks = kernel.Chunks(product(shape))
	return wantRank(shape)
}

func (addOp) Forward(f *autograd.Fwd) {
	switch f.Out[0].DType() {
	case tensor.Float32:
		addForward[float32](f)
	case tensor.Float64:
		addForward[float64](f)
	case tensor.Int64:
		addForward[int64](f)
	default:
		addForward[int32](f)
	}
}

func addForward[T interface {
	kernel.Number
	tensor.Elem
}](f *autograd.Fwd) {
	n := f.Out[0].Elems()
	if n <= kernel.ChunkSize && unstrided(f) {
		kernel.AddFlat(tensor.Raw[T](&f.Out[0]), tensor.Raw[T](&f.In[0]), tensor.Raw[T](&f.In[1]))
		return
	}
	y, a, b := operand.Of[T](&f.Out[0]), operand.Of[T](&f.In[0]), operand.Of[T](&f.In[1])
	if n <= kernel.ChunkSize {
		kernel.Add(y, a, b, 0, n)
		return
	}
	f.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Add(y, a, b, lo, hi)
	})
}

// unstrided tells whether nothing is strided.
func unstrided(f *autograd.Fwd) bool {
	for i := range f.In {
		if !f.In[i].IsContiguous() {
			return false
		}
	}
	return f.Out[0].IsContiguous()
}

func (addOp) Backward(*autograd.Bwd) { panic("ops: add passes its gradients on") }
