package data_test

import (
	"bytes"
	"fmt"

	"github.com/thimble-ml/thimble/data"
)

func ExampleReadIDX() {
	file := []byte{0, 0, 0x08, 2, 0, 0, 0, 2, 0, 0, 0, 3, 10, 20, 30, 40, 50, 60} // uint8, rank 2, 2 by 3
	x, err := data.ReadIDX(bytes.NewReader(file))
	fmt.Println(x.Type, x.Shape, x.Data, err)
	_, err = data.ReadIDX(bytes.NewReader(file[:15]))
	fmt.Println(err)
	// Output:
	// uint8 [2 3] [10 20 30 40 50 60] <nil>
	// data: IDX stream: uint8[2 3], 6 bytes by its header: after 3 of them: unexpected EOF
}

func ExampleLoadImages() {
	_, _, err := data.LoadImages("no-such-folder")
	fmt.Println(err)
	// Output:
	// data: folder "no-such-folder": file does not exist: want a folder with the four IDX files of a data set, train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, each plain or with .gz (download them, or name the folder that has them)
}

// One epoch of shuffled batches. The two slices are filled again and again.
func ExampleImages_Batch() {
	set := &data.Images{X: []byte{0, 0, 51, 51, 102, 102, 255, 255}, Y: []byte{0, 1, 2, 3}, N: 4, H: 1, W: 2, Classes: 4}
	const batch = 2
	x, y := make([]float32, batch*set.H*set.W), make([]int64, batch)
	order := data.Shuffle(set.N, 1, 0)
	for at := 0; at+batch <= len(order); at += batch {
		if err := set.Batch(order[at:at+batch], x, y, data.Norm{}); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(x, y)
	}
	// Output:
	// [0 0 0.4 0.4] [0 2]
	// [1 1 0.2 0.2] [3 1]
}

// An epoch's order follows from the seed and the epoch's number, so nothing of it has to be saved.
func ExampleShuffle() {
	fmt.Println(data.Shuffle(8, 1, 0))
	fmt.Println(data.Shuffle(8, 1, 1))
	fmt.Println(data.Shuffle(8, 1, 0))
	// Output:
	// [6 1 0 4 7 5 3 2]
	// [2 3 1 4 6 7 5 0]
	// [6 1 0 4 7 5 3 2]
}
