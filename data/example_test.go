package data_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
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

// squares is a data set of numbers and their squares, as if read from somewhere slow.
type squares struct{}

func (squares) Len() int { return 7 }

func (squares) Fields() []tensor.Spec {
	return []tensor.Spec{tensor.Of(tensor.Float32), tensor.Of(tensor.Float32)}
}

func (squares) Get(_ context.Context, item *data.Item) error {
	n := float32(item.Index())
	data.Field[float32](item, 0)[0] = n
	data.Field[float32](item, 1)[0] = n * n
	return nil
}

// A training that stops in the middle of an epoch, and another that goes on with the very next batch.
func ExampleLoader() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	cfg := data.LoaderConfig{Batch: 2, Shuffle: true, Seed: 1, Workers: 2}
	loader, err := data.NewLoader(dev, squares{}, cfg)
	if err != nil {
		log.Fatal(err)
	}
	for batch, err := range loader.Epoch(context.Background(), 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Index, tensor.Data[float32](batch.X), tensor.Data[float32](batch.Y))
		if batch.Index == 1 {
			break
		}
	}
	state := loader.State()
	fmt.Println("epoch", state.Epoch, "batch", state.Batch)

	again, err := data.NewLoader(dev, squares{}, cfg)
	if err != nil {
		log.Fatal(err)
	}
	if err := again.Load(state); err != nil {
		log.Fatal(err)
	}
	for epoch := again.State().Epoch; epoch < 1; epoch++ {
		for batch, err := range again.Epoch(context.Background(), epoch) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(batch.Index, tensor.Data[float32](batch.X), tensor.Data[float32](batch.Y))
		}
	}
	fmt.Println(dev.Stats().Live, "bytes left")
	// Output:
	// 0 [6 0] [36 0]
	// 1 [3 5] [9 25]
	// epoch 0 batch 2
	// 2 [4 2] [16 4]
	// 3 [1] [1]
	// 0 bytes left
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
