package tensor_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// A view shares its base's bytes; a copy has bytes of its own, and the device counts them.
func Example() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	at := memory.Site{Op: "example"}

	x, err := tensor.From(dev, memory.Input, at, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		panic(err)
	}
	defer x.Release()
	fmt.Println(x)

	xt, err := x.Transpose(0, 1)
	if err != nil {
		panic(err)
	}
	fmt.Println(&xt)
	fmt.Println(dev.Stats().Live, "bytes")

	c, err := xt.To(tensor.Int64, memory.Other, at)
	if err != nil {
		panic(err)
	}
	defer c.Release()
	fmt.Println(dev.Stats().Live, "bytes")
	// Output:
	// float32[2 3]
	// [[1. 2. 3.]
	//  [4. 5. 6.]]
	// float32[3 2]
	// [[1. 4.]
	//  [2. 5.]
	//  [3. 6.]]
	// 24 bytes
	// 72 bytes
}

// A stream is three numbers. Copying it is saving it.
func ExampleStream() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	at, spec := memory.Site{Op: "example"}, tensor.Of(tensor.Float32, 5)

	s := tensor.Stream{Seed: 1}
	saved := s
	var draws [2]*tensor.Tensor
	for i, from := range []*tensor.Stream{&s, &saved} {
		if draws[i], err = tensor.New(dev, memory.Other, at, spec); err != nil {
			panic(err)
		}
		defer draws[i].Release()
		if err := tensor.FillNormal(draws[i], from, 0, 1); err != nil {
			panic(err)
		}
	}
	fmt.Println(tensor.Equal(draws[0], draws[1]), s)
	// Output: true {1 0 8}
}

func ExampleBroadcastShapes() {
	fmt.Println(tensor.BroadcastShapes([]int{8, 1, 3}, []int{5, 1}))
	fmt.Println(tensor.BroadcastShapes([]int{8, 3}, []int{8, 5}))
	// Output:
	// [8 5 3] <nil>
	// [] tensor: broadcast [8 3] with [8 5]: dim -1 is 3 and 5
}

// A tensor for NumPy and back. In Python the file is numpy.load("x.npy").
func ExampleSaveNpy() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path, at := filepath.Join(dir, "x.npy"), memory.Site{Op: "example"}

	x, err := tensor.From(dev, memory.Other, at, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		panic(err)
	}
	defer x.Release()
	columns, err := x.Transpose(0, 1)
	if err != nil {
		panic(err)
	}
	if err := tensor.SaveNpy(path, &columns); err != nil {
		panic(err)
	}
	y, err := tensor.LoadNpy(path, dev, memory.Other, at)
	if err != nil {
		panic(err)
	}
	defer y.Release()
	fmt.Println(y.Spec(), tensor.Data[float32](y))
	// Output:
	// float32[3 2] [1 4 2 5 3 6]
}
