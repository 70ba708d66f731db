package checkpoint_test

import (
	"context"
	"fmt"
	"log"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// session opens a device and a session on it.
func session() (*autograd.Session, func()) {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	return sess, func() { _, _ = sess.Close(), dev.Close() }
}

// The same loss at lower peaks: the blocks of a GPT recomputed in backward.
func Example() {
	sess, done := session()
	defer done()
	gpt, err := nn.NewGPT(sess, nn.GPTConfig{Vocab: 50, Context: 32, Dim: 16, Heads: 2, Layers: 16, Dropout: 0.1})
	if err != nil {
		log.Fatal(err)
	}
	ids := tensor.Of(tensor.Int64, 8, 32)
	x, err := tensor.Zeros(sess.Device(), memory.Input, memory.Site{Op: "example"}, ids)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()

	var plain int64 // peak of the plain run
	step := func() {
		start := sess.Rand()
		sess.Device().ResetPeak()
		err := sess.Step(context.Background(), func(s *autograd.Scope) error {
			loss := gpt.Loss(s, s.Input(x), s.Input(x))
			fmt.Printf("loss %.4f ", loss.Item())
			loss.Backward(s)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
		for _, p := range nn.Params(gpt) {
			p.ZeroGrad()
		}
		sess.SetRand(start) // the same dropout for each
		peak := sess.Device().Stats().Peak
		if plain == 0 {
			plain = peak
		}
		fmt.Printf("peak %.1f of the plain run's\n", float64(peak)/float64(plain))
	}
	step()
	gpt.Chain = checkpoint.Chain(checkpoint.PerBlock, checkpoint.With(checkpoint.DearOnly))
	step()
	gpt.Chain = checkpoint.Chain(checkpoint.PerBlock)
	step()
	gpt.Chain = checkpoint.Chain(checkpoint.Recursive)
	step()
	// Output:
	// loss 3.6949 peak 1.0 of the plain run's
	// loss 3.6949 peak 0.7 of the plain run's
	// loss 3.6949 peak 0.2 of the plain run's
	// loss 3.6949 peak 0.2 of the plain run's
}

// A region of one's own.
func ExampleRun1() {
	sess, done := session()
	defer done()
	fc1, err := nn.NewLinear(sess, 16, 64)
	if err != nil {
		log.Fatal(err)
	}
	fc2, err := nn.NewLinear(sess, 64, 16)
	if err != nil {
		log.Fatal(err)
	}
	mlp := nn.Sequential{fc1, nn.GELU{}, fc2}
	x, err := tensor.Zeros(sess.Device(), memory.Input, memory.Site{Op: "example"}, tensor.Of(tensor.Float32, 8, 16))
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	err = sess.Step(context.Background(), func(s *autograd.Scope) error {
		kept := func(y *autograd.Value) (n int64) {
			for _, t := range autograd.Saved(y) {
				if t.Where == autograd.InMemory {
					n += t.Bytes
				}
			}
			return n
		}
		in := s.Input(x)
		fmt.Println(kept(mlp.Forward(s, in)), "bytes kept by the plain run")
		fmt.Println(kept(checkpoint.Run1(s, mlp.Forward, in)), "bytes kept by a region, but for its input")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 4608 bytes kept by the plain run
	// 0 bytes kept by a region, but for its input
}

func ExampleSchedule_String() {
	fmt.Println(checkpoint.PerBlock(4))
	fmt.Println(checkpoint.Segments(3)(8))
	fmt.Println(checkpoint.Recursive(8))
	// Output:
	// (0) (1) (2) (3)
	// (0 1 2) (3 4 5) (6 7)
	// (((0) 1) (2) 3) ((4) 5) (6) (7)
}
