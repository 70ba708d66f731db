package data

import (
	"context"
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/tensor"
)

// Norm is how a pixel becomes a float: (pixel/255 - Mean) / Std.
type Norm struct {
	Mean float32 // of pixels as fractions of 255
	Std  float32 // of the same; default 1
}

// Norm returns the mean and the (population) standard deviation of all pixels, which Dataset then makes 0 and 1. For
// MNIST's training set they are 0.1307 and 0.3081. Images of one colour give Std 1.
func (im *Images) Norm() Norm {
	var count [256]int
	for _, p := range im.X {
		count[p]++
	}
	var sum, squares float64
	for p, c := range count {
		v := float64(p) / 255
		sum += v * float64(c)
		squares += v * v * float64(c)
	}
	if len(im.X) == 0 {
		return Norm{Std: 1}
	}
	n := float64(len(im.X))
	mean := sum / n
	std := math.Sqrt(max(squares/n-mean*mean, 0))
	if std < 1e-6 { // the two squares differ by their rounding only
		std = 1
	}
	return Norm{Mean: float32(mean), Std: float32(std)}
}

// table returns the float of every pixel value, computed in float64 and rounded once.
func (m Norm) table() (t [256]float32) {
	std := float64(m.Std)
	if std == 0 {
		std = 1
	}
	for p := range t {
		t[p] = float32((float64(p)/255 - float64(m.Mean)) / std)
	}
	return t
}

// Dataset is the images as items of a [Loader]: the pixels, normalised, as Float32 of the given shape, [1 H W] if none is
// given; and the label, Int64 of rank 0. The shape must have as many elements as an image has pixels.
func (im *Images) Dataset(norm Norm, shape ...int) (Dataset, error) {
	if len(shape) == 0 {
		shape = []int{1, im.H, im.W}
	}
	pixels := tensor.Of(tensor.Float32, shape...)
	if err := pixels.Validate(); err != nil {
		return nil, fmt.Errorf("data: Images.Dataset: %w", err)
	}
	if pixels.Elems() != im.H*im.W {
		return nil, fmt.Errorf("data: Images.Dataset: shape %v for images of %dx%d: want %d elements", pixels.Shape, im.H, im.W, im.H*im.W)
	}
	return &imageSet{im, norm.table(), pixels}, nil
}

type imageSet struct {
	im     *Images
	value  [256]float32
	pixels tensor.Spec
}

func (s *imageSet) Len() int { return s.im.N }

func (s *imageSet) Fields() []tensor.Spec { return []tensor.Spec{s.pixels, tensor.Of(tensor.Int64)} }

func (s *imageSet) Get(_ context.Context, item *Item) error {
	i, size := item.Index(), s.im.H*s.im.W
	x := Field[float32](item, 0)
	for j, p := range s.im.X[i*size : (i+1)*size] {
		x[j] = s.value[p]
	}
	Field[int64](item, 1)[0] = int64(s.im.Y[i])
	return nil
}
