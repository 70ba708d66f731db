package ops

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// group_norm of x [N C ...]: the channels of an image in groups, each normalized over its channels and pixels (Wu and He,
// 2018), with the biased variance:
//
//	xhat = (x - mean) rstd     rstd = 1/sqrt(var + eps)     y = xhat weight[c] + bias[c]
//
//	dx      = rstd (gw - mean(gw) - xhat mean(gw xhat))     gw = g weight[c]
//	dweight = the sums by channel of g xhat                 dbias = the sums by channel of g
//
// Saved: x, weight (for dx), and in a hidden output mean and rstd of each group.

// GroupNorm normalizes each of the given number of groups of channels of x [N C ...], which must divide C. weight and bias
// are [C], or nil: both, or bias alone. All are of one dtype, a float dtype; the result has x's shape. eps, 0 or more,
// is added to the variance (torch's default is 1e-5). With one group it is layer norm over all but N, with weight and bias
// by channel; with C groups instance norm. Saved are x, weight, and two numbers a group of each image.
func GroupNorm(s *autograd.Scope, x *autograd.Value, groups int, weight, bias *autograd.Value, eps float64) *autograd.Value {
	o := groupNormOp{groups: groups, eps: eps, weight: weight != nil, bias: bias != nil}
	return autograd.Apply(s, o, withAffine(weight, bias, x)...)
}

// withAffine appends weight and bias, unless they are nil.
func withAffine(weight, bias *autograd.Value, in ...*autograd.Value) []*autograd.Value {
	if weight != nil {
		in = append(in, weight)
	}
	if bias != nil {
		in = append(in, bias)
	}
	return in
}

type groupNormOp struct {
	groups       int
	eps          float64
	weight, bias bool
}

var (
	groupNormRule = &autograd.Rule{Name: "group_norm", Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1), autograd.Out(1)},
		{autograd.In(0), autograd.Out(1)},
	}}
	groupNormPlainRule = &autograd.Rule{Name: "group_norm", Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.Out(1)},
	}}
)

func (o groupNormOp) Rule() *autograd.Rule {
	if o.weight {
		return groupNormRule
	}
	return groupNormPlainRule
}

func (o groupNormOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if err := checkChannelNorm(in, 1, o.weight, o.bias, o.eps); err != nil {
		return err
	}
	if c := in[0].Dim(1); o.groups < 1 || c%o.groups != 0 {
		return fmt.Errorf("want a number of groups that divides the %d channels, got %d", c, o.groups)
	}
	k := o.plan(in[0])
	sh.Like(in[0])
	sh.Add(in[0].DType, in[0].Dim(0), o.groups, 2)
	sh.Hidden = 1
	sh.Chunks, sh.BwdChunks = k.RowChunks(), k.RowChunks()
	if o.weight {
		sh.BwdShared, sh.BwdChunks = int64(k.Parts())*8, max(sh.BwdChunks, k.Chunks())
	}
	return nil
}

func (o groupNormOp) plan(x tensor.Spec) kernel.ChannelNorm {
	n, c, p := channels(x)
	return kernel.NewGroupNorm(n, c, p, o.groups)
}

// channels sees x as [N C P].
func channels(x tensor.Spec) (n, c, p int) { return x.Dim(0), x.Dim(1), product(x.Shape[2:]) }

// checkChannelNorm checks what batch norm and group norm have in common. Inputs 1 to plain-1, if there are any, are
// statistics; then weight and bias follow.
func checkChannelNorm(in []tensor.Spec, plain int, weight, bias bool, eps float64) error {
	x := in[0]
	switch {
	case x.Rank() < 2:
		return errors.New("want x [N C ...]")
	case !(eps >= 0):
		return fmt.Errorf("want eps of 0 or more, got %v", eps)
	case bias && !weight:
		return errors.New("a bias without a weight: want both, neither, or the weight alone")
	}
	names := []string{"mean", "variance", "weight", "bias"}[3-plain:]
	for i, s := range in[1:] {
		if s.Rank() != 1 || s.Dim(0) != x.Dim(1) {
			return fmt.Errorf("want %s [%d], one for each channel", names[i], x.Dim(1))
		}
	}
	return wantFloats(in...)
}

func (o groupNormOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), groupNormForward[float32], groupNormForward[float64])(o, f)
}

func groupNormForward[T kernel.Float](o groupNormOp, f *autograd.Fwd) {
	k := o.plan(f.In[0].Spec())
	x, y, stats := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0]), optional[T](&f.Out[1])
	w, b := input[T](f, 1), input[T](f, 2)
	f.Par(k.RowChunks(), func(_, c int) { kernel.GroupNormForward(&k, y, stats, x, w, b, o.eps, c) })
}

func (o groupNormOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, groupNormBackward[float32], groupNormBackward[float64])(o, b)
}

func groupNormBackward[T kernel.Float](o groupNormOp, b *autograd.Bwd) {
	k := o.plan(b.InSpec(0))
	g := tensor.Data[T](b.Grad(0))
	if dst, add := b.Into(0); dst != nil {
		dx, x, stats := tensor.Data[T](dst), tensor.Data[T](b.In(0)), tensor.Data[T](b.Out(1))
		var w []T
		if o.weight {
			w = tensor.Data[T](b.In(1))
		}
		b.Par(k.RowChunks(), func(_, c int) { kernel.GroupNormBackward(&k, dx, add, g, x, w, stats, c) })
	}
	if dw, db := affineGrads(b, 1, o.weight, o.bias); dw.dst != nil || db.dst != nil {
		var x, stats []T
		if dw.dst != nil {
			x, stats = tensor.Data[T](b.In(0)), tensor.Data[T](b.Out(1))
		}
		sums, c := channelSums(&b.Run, &k, g, x, stats), b.InSpec(0).Dim(1)
		putAffine[T](dw, db, sums, c)
	}
}

// target is where a gradient goes.
type target struct {
	dst *tensor.Tensor
	add bool
}

// affineGrads are the targets of weight and bias, which are inputs number at and at+1 if they are there.
func affineGrads(b *autograd.Bwd, at int, weight, bias bool) (dw, db target) {
	if weight {
		dw.dst, dw.add = b.Into(at)
	}
	if bias {
		db.dst, db.add = b.Into(at + 1)
	}
	return dw, db
}

// putAffine puts the sums of g and of g xhat where they are wanted.
func putAffine[T kernel.Float](dw, db target, sums []float64, c int) {
	if dw.dst != nil {
		kernel.PutSums(tensor.Data[T](dw.dst), dw.add, sums[c:])
	}
	if db.dst != nil {
		kernel.PutSums(tensor.Data[T](db.dst), db.add, sums[:c])
	}
}
