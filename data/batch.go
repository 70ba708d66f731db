package data

import (
	"fmt"
	"math"
)

// Norm is how a pixel becomes a float: (pixel/255 - Mean) / Std.
type Norm struct {
	Mean float32 // of pixels as fractions of 255
	Std  float32 // of the same; default 1
}

// Norm returns the mean and the (population) standard deviation of all pixels, which Batch then makes 0 and 1. For
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

// Batch writes the images that idx names, normalised, to x and their labels to y, in idx's order. x holds
// len(idx)*H*W floats, y len(idx) labels; both belong to the caller, and nothing is allocated. When a length or an
// index is wrong it returns an error and writes nothing.
func (im *Images) Batch(idx []int32, x []float32, y []int64, norm Norm) error {
	size := im.H * im.W
	if len(x) != len(idx)*size || len(y) != len(idx) {
		return fmt.Errorf("data: batch of %d images of %dx%d: room for %d pixels and %d labels: want %d and %d",
			len(idx), im.H, im.W, len(x), len(y), len(idx)*size, len(idx))
	}
	for i, k := range idx {
		if k < 0 || int(k) >= im.N {
			return fmt.Errorf("data: batch: index %d at %d: want 0 to %d", k, i, im.N-1)
		}
	}
	value := norm.table()
	for i, k := range idx {
		y[i] = int64(im.Y[k])
		dst := x[i*size : (i+1)*size]
		for j, p := range im.X[int(k)*size : (int(k)+1)*size] {
			dst[j] = value[p]
		}
	}
	return nil
}
