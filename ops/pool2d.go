package ops

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// What the pools have in common: windows over the last two dimensions.

// Pool2DConfig is the window of a pool and how it moves. Pairs are height and width; see [Both].
type Pool2DConfig struct {
	Kernel  [2]int // size of the window. Required.
	Stride  [2]int // zero: the size of the window
	Padding [2]int // on each side, at most half a window; zero: none
}

// pool2D checks x [... H W] and gives the geometry. torch's ceil_mode, whose last windows hang over the border, is not
// offered.
func (c Pool2DConfig) pool2D(x tensor.Spec) (p kernel.Pool, err error) {
	if c.Stride == [2]int{} {
		c.Stride = c.Kernel
	}
	switch {
	case min(c.Kernel[0], c.Kernel[1]) < 1:
		return p, fmt.Errorf("want a kernel of 1 or more, got %v", c.Kernel)
	case min(c.Stride[0], c.Stride[1]) < 1:
		return p, fmt.Errorf("want strides of 1 or more, got %v", c.Stride)
	case min(c.Padding[0], c.Padding[1]) < 0 || 2*c.Padding[0] > c.Kernel[0] || 2*c.Padding[1] > c.Kernel[1]:
		return p, fmt.Errorf("want padding of 0 to half the kernel %v, got %v", c.Kernel, c.Padding)
	}
	if err := wantPlanes(x); err != nil {
		return p, err
	}
	planes, _ := matrix(x, 2)
	p = kernel.Pool{Planes: planes, In: [2]int{x.Dim(-2), x.Dim(-1)}, Kernel: c.Kernel, Stride: c.Stride, Pad: c.Padding}
	for d := range p.Out {
		room := p.In[d] + 2*p.Pad[d] - p.Kernel[d]
		if room < 0 {
			return p, fmt.Errorf("want a kernel that fits into x: it is %d x %d, x with its padding %d x %d",
				p.Kernel[0], p.Kernel[1], p.In[0]+2*p.Pad[0], p.In[1]+2*p.Pad[1])
		}
		p.Out[d] = room/p.Stride[d] + 1
	}
	return p, nil
}

// wantPlanes refuses what has no planes, or empty ones.
func wantPlanes(x tensor.Spec) error {
	if x.Rank() < 2 || x.Dim(-1) < 1 || x.Dim(-2) < 1 {
		return errors.New("want x [... H W] with H and W of 1 or more")
	}
	return wantFloats(x)
}

// addPlanes appends the output: x with planes of another size.
func addPlanes(sh *autograd.Shapes, x tensor.Spec, p *kernel.Pool) {
	addShape(sh, x.DType, x.Shape[:x.Rank()-2], p.Out[0], p.Out[1])
}
