package thimble_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// The program of README.md: XOR by a small network, its peak predicted before the first step.
func Example() {
	dev, err := memory.NewDevice(memory.Config{Limit: 1 << 20}) // all it may take: 1 MiB
	check(err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1})
	check(err)
	fc1, err := nn.NewLinear(sess, 2, 16)
	check(err)
	fc2, err := nn.NewLinear(sess, 16, 2)
	check(err)
	model := nn.Sequential{fc1, nn.GELU{}, fc2}
	opt, err := optim.NewAdamW(nn.Params(model), optim.AdamWConfig{LR: 0.05})
	check(err)
	x, err := tensor.From(dev, memory.Input, memory.Site{}, []float32{0, 0, 0, 1, 1, 0, 1, 1}, 4, 2)
	check(err)
	y, err := tensor.From(dev, memory.Input, memory.Site{}, []int64{0, 1, 1, 0}, 4)
	check(err)

	var loss float64
	step := func(s *autograd.Scope) error {
		l := ops.CrossEntropy(s, model.Forward(s, s.Input(x)), s.Input(y))
		loss = l.Item()
		l.Backward(s)
		defer opt.ZeroGrad(s)
		return opt.Step(s)
	}
	plan, err := sess.Plan(step, autograd.PlanConfig{}) // the dry run: the same code, no data
	check(err)
	for range 200 {
		check(sess.Step(context.Background(), step))
	}
	fmt.Println("peak", dev.Stats().Peak, "predicted", plan.Peak(), "loss below 0.01:", loss < 0.01)
	// Output: peak 1764 predicted 1764 loss below 0.01: true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// TestReadmeShowsTheExample fails when the program in README.md is not the one above.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, body, ok := strings.Cut(string(source), "func Example() {\n")
	require.True(t, ok)
	body, _, ok = strings.Cut(body, "\t// Output:")
	require.True(t, ok)
	var lines []string
	for _, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		lines = append(lines, strings.TrimPrefix(line, "\t"))
	}
	require.Contains(t, string(readme), strings.Join(lines, "\n"), "README.md and example_test.go must show the same program")
}
