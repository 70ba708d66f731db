package ops_test

import (
	"context"
	"fmt"
	"log"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Causal attention of 4 heads, which share 2 heads of keys and values, over 1024 steps: what is kept for backward is the
// buffer that q, k and v were cut from, the result, and one number a step and head. The weights alone would be 16 MiB.
func ExampleAttention() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	sess, err := autograd.New(autograd.Config{Device: dev})
	if err != nil {
		log.Fatal(err)
	}
	defer sess.Close()
	x, err := tensor.Zeros(dev, memory.Input, memory.Site{}, tensor.Of(tensor.Float32, 1, 1024, 8, 16))
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()

	err = sess.Step(context.Background(), func(s *autograd.Scope) error {
		qkv := ops.SplitSizes(s, s.Input(x).RequireGrad(), 2, 4, 2, 2) // [1 1024 4 16] and twice [1 1024 2 16]
		y := ops.Attention(s, qkv[0], qkv[1], qkv[2], ops.AttentionConfig{Causal: true, Dropout: 0.1})
		fmt.Println(y.Spec())
		fmt.Print(autograd.FormatSaved(autograd.Saved(y)))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// float32[1 1024 4 16]
	//       524288  float32[1 1024 4 16]     scaled_dot_product_attention .                        input 0, for the gradient of input 0, 1, 2 (memory)
	//            0  float32[1 1024 2 16]     scaled_dot_product_attention .                        input 1, for the gradient of input 0, 1, 2 (memory)
	//            0  float32[1 1024 2 16]     scaled_dot_product_attention .                        input 2, for the gradient of input 0, 1 (memory)
	//       262144  float32[1 1024 4 16]     scaled_dot_product_attention .                        output 0, for the gradient of input 0, 1 (memory)
	//        16384  float32[1 1024 4]        scaled_dot_product_attention .                        output 1, for the gradient of input 0, 1, 2 (memory)
	//       802816  bytes kept for backward
}
