package gorgonia_test

import (
	"fmt"

	gt "gorgonia.org/tensor"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/tensor/gorgonia"
)

// Gorgonia computes over a tensor's own memory; the result comes back as a tensor that the device counts.
func Example() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		panic(err)
	}
	defer dev.Close()

	x, err := tensor.From(dev, memory.Input, memory.Site{Op: "x"}, []float64{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		panic(err)
	}
	defer x.Release()
	d, shared, err := gorgonia.ToDense(x)
	if err != nil {
		panic(err)
	}
	fmt.Println("shared:", shared, "- counted:", dev.Stats().Live, "bytes")

	sums, err := d.Sum(1) // of each row
	if err != nil {
		panic(err)
	}
	y, err := gorgonia.FromDense(dev, memory.Input, memory.Site{Op: "y"}, sums)
	if err != nil {
		panic(err)
	}
	defer y.Release()
	fmt.Println(y)
	fmt.Println("counted:", dev.Stats().Live, "bytes")

	if _, err := gt.Add(d, 0.5, gt.UseUnsafe()); err != nil { // in place: in x
		panic(err)
	}
	x.Bump()
	fmt.Println(x)
	// Output:
	// shared: true - counted: 48 bytes
	// float64[2]
	// [ 6. 15.]
	// counted: 64 bytes
	// float64[2 3]
	// [[1.5 2.5 3.5]
	//  [4.5 5.5 6.5]]
}
