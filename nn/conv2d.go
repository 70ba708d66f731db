package nn

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Conv2D is a convolution over images, torch.nn.Conv2d.
type Conv2D struct {
	Weight *autograd.Param // [out in/Groups K K]
	Bias   *autograd.Param // [out], or nil

	Stride, Padding, Dilation, Groups int
}

// Conv2DConfig of a Conv2D; its zero value is torch's default.
type Conv2DConfig struct {
	Stride   int // 0: 1
	Padding  int // zeros on each side
	Dilation int // distance of the kernel's taps; 0: 1
	Groups   int // of channels that do not mix; 0: 1
	NoBias   bool
	DType    tensor.DType
	// How the parameters start; nil: U(-1/sqrt(n), 1/sqrt(n)), n the inputs of one output.
	InitWeight, InitBias Init
}

// NewConv2D makes a layer from in to out channels with a square kernel, at most one config given.
func NewConv2D(sess *autograd.Session, in, out, kernel int, cfg ...Conv2DConfig) (*Conv2D, error) {
	k := newMaker("NewConv2D", sess)
	c := config(k, cfg)
	for _, n := range []*int{&c.Stride, &c.Dilation, &c.Groups} {
		if *n == 0 {
			*n = 1
		}
	}
	k.positive("in channels", in)
	k.positive("out channels", out)
	k.positive("kernel", kernel)
	k.positive("stride", c.Stride)
	k.positive("dilation", c.Dilation)
	k.positive("groups", c.Groups)
	if c.Padding < 0 {
		k.failf("padding %d: want 0 or more", c.Padding)
	}
	if k.err == nil && (in%c.Groups != 0 || out%c.Groups != 0) {
		k.failf("%d groups of %d and %d channels: want groups that divide both", c.Groups, in, out)
	}
	n := in / max(1, c.Groups)
	start := fanIn(max(1, n*kernel*kernel))
	l := &Conv2D{Stride: c.Stride, Padding: c.Padding, Dilation: c.Dilation, Groups: c.Groups}
	l.Weight = k.param("weight", c.InitWeight.or(start), c.DType, out, n, kernel, kernel)
	if !c.NoBias {
		l.Bias = k.param("bias", c.InitBias.or(start), c.DType, out)
	}
	if err := k.end(); err != nil {
		return nil, err
	}
	return l, nil
}

// Forward takes x [N in H W] and gives [N out H' W'].
func (l *Conv2D) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return ops.Conv2D(s, x, value(l.Weight), value(l.Bias), ops.Conv2DConfig{
		Stride: ops.Both(l.Stride), Padding: ops.Both(l.Padding), Dilation: ops.Both(l.Dilation), Groups: l.Groups,
	})
}

// MaxPool2D takes the largest of each Size x Size window, torch.nn.MaxPool2d.
type MaxPool2D struct {
	Size, Stride, Padding int // Stride 0: Size
}

// Forward takes x [N C H W].
func (p MaxPool2D) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return ops.MaxPool2D(s, x, ops.Pool2DConfig{Kernel: ops.Both(p.Size), Stride: ops.Both(p.Stride), Padding: ops.Both(p.Padding)})
}

// Flatten makes all dimensions but the first one, torch.nn.Flatten.
type Flatten struct{}

// Forward takes x [N ...] and gives [N M].
func (Flatten) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	n := x.Dim(0)
	return ops.Reshape(s, x, n, x.Spec().Elems()/max(1, n))
}
