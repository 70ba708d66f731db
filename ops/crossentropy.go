package ops

import (
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// cross_entropy of logits[... C] with one target class a row:
//
//	lse[r] = log sum exp(logits[r])     loss = mean over rows with target != IgnoreIndex of lse[r] - logits[r][target]
//
//	dlogits[r] = g/n (exp(logits[r] - lse[r]) - onehot(target))     0 in ignored rows; n rows count
//
// Saved: logits, targets, and one number a row, lse, in a hidden output. A log-softmax would be another tensor as large
// as the logits, which are the largest of a language model.

// IgnoreIndex is the target of a row that does not count, as in torch.
const IgnoreIndex = -100

// CrossEntropy gives the mean cross-entropy, a scalar, of logits [... C], Float32 or Float64, with targets [...], Int64 or
// Int32: classes from 0 to C-1, or [IgnoreIndex] for rows that do not count. Any other target is an error. If no row
// counts the loss is NaN (0/0), as in torch, and gradients are 0. Saved are logits, targets, and one number a row.
func CrossEntropy(s *autograd.Scope, logits, targets *autograd.Value) *autograd.Value {
	return autograd.Apply(s, crossEntropyOp{}, logits, targets)
}

type crossEntropyOp struct{}

var crossEntropyRule = &autograd.Rule{
	Name:  "cross_entropy",
	Reads: [][]autograd.Ref{{autograd.In(0), autograd.In(1), autograd.Out(1)}},
}

func (crossEntropyOp) Rule() *autograd.Rule { return crossEntropyRule }

func (crossEntropyOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	logits, targets := in[0], in[1]
	if err := wantFloats(logits); err != nil {
		return err
	}
	if err := wantIndex("targets", targets); err != nil {
		return err
	}
	if logits.Rank() < 1 || !slices.Equal(logits.Shape[:logits.Rank()-1], targets.Shape) {
		return fmt.Errorf("want logits [... C] and targets [...]")
	}
	rows, cols := matrix(logits, 1)
	sh.Add(logits.DType)
	sh.Add(logits.DType, rows)
	sh.Hidden = 1
	sh.Chunks = kernel.RowChunks(rows, cols)
	sh.Shared = int64(sh.Chunks) * kernel.CrossEntropyPart * 8
	sh.BwdChunks = sh.Chunks
	return nil
}

func (crossEntropyOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(),
		byIndex(f.In[1].DType(), crossEntropyForward[float32, int32], crossEntropyForward[float32, int64]),
		byIndex(f.In[1].DType(), crossEntropyForward[float64, int32], crossEntropyForward[float64, int64]))(f)
}

func crossEntropyForward[T kernel.Float, I kernel.Index](f *autograd.Fwd) {
	rows, cols := matrix(f.In[0].Spec(), 1)
	x, targets, lse := tensor.Data[T](&f.In[0]), tensor.Data[I](&f.In[1]), optional[T](&f.Out[1])
	parts := kernel.View[float64](f.Shared())
	f.Par(kernel.RowChunks(rows, cols), func(_, c int) {
		lo, hi := kernel.RowRange(rows, cols, c)
		part, o := parts[c*kernel.CrossEntropyPart:], kernel.CrossEntropyOptions[T]{Ignore: IgnoreIndex}
		kernel.CrossEntropy(part, nil, kernel.Cut(lse, lo, hi), x[lo*cols:hi*cols], targets[lo:hi], cols, &o)
	})
	sum, n, bad := kernel.CrossEntropyFinish(parts, rows, cols)
	if bad >= 0 {
		f.Fail(fmt.Errorf("row %v has target %d: want 0 to %d, one of %d classes, or %d to ignore the row",
			place(bad, f.In[1].Shape()), targets[bad], cols-1, cols, IgnoreIndex))
	}
	tensor.Data[T](&f.Out[0])[0] = T(sum / n)
}

func (crossEntropyOp) Backward(b *autograd.Bwd) {
	dt := b.InSpec(1).DType
	byFloat(b.OutSpec(0).DType,
		byIndex(dt, crossEntropyBackward[float32, int32], crossEntropyBackward[float32, int64]),
		byIndex(dt, crossEntropyBackward[float64, int32], crossEntropyBackward[float64, int64]))(b)
}

func crossEntropyBackward[T kernel.Float, I kernel.Index](b *autograd.Bwd) {
	rows, cols := matrix(b.InSpec(0), 1)
	dst, add := b.Into(0)
	dx, x, targets, lse := tensor.Data[T](dst), tensor.Data[T](b.In(0)), tensor.Data[I](b.In(1)), tensor.Data[T](b.Out(1))
	scale := float64(tensor.Data[T](b.Grad(0))[0]) / float64(counted(targets))
	b.Par(kernel.RowChunks(rows, cols), func(_, c int) {
		lo, hi := kernel.RowRange(rows, cols, c)
		o := kernel.CrossEntropyOptions[T]{Ignore: IgnoreIndex}
		kernel.CrossEntropyBackward(dx[lo*cols:hi*cols], add, nil, scale, x[lo*cols:hi*cols], lse[lo:hi], targets[lo:hi], cols, &o)
	})
}

// counted is the number of rows that the mean is over.
func counted[I kernel.Index](targets []I) (n int) {
	for _, t := range targets {
		if t != IgnoreIndex {
			n++
		}
	}
	return n
}
