package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
)

// TestModels: the sizes and the arithmetic are those that the other side has.
func TestModels(t *testing.T) {
	want := map[string]struct {
		parameters int64
		gflop      float64 // a step
	}{
		"babygpt": {10_770_816, 145.3},
		"gpt2":    {124_439_808, 197.0},
		"mlp":     {669_706, 0.411},
		"cnn":     {1_199_882, 4.58},
		"vit":     {2_693_578, 70.1},
	}
	require.Len(t, models, len(want))
	for _, m := range models {
		dev, err := memory.NewDevice(memory.Config{Virtual: true})
		require.NoError(t, err)
		sess, err := autograd.New(autograd.Config{Device: dev, Workers: 1})
		require.NoError(t, err)
		net, err := m.build(sess)
		require.NoError(t, err)
		require.Equal(t, want[m.name].parameters, nn.NumParams(net), m.name)
		require.InEpsilon(t, want[m.name].gflop, m.flop*float64(m.batch*m.units)/1e9, 2e-3, m.name)
		require.NoError(t, sess.Close())
	}
}

// timed runs the program with -json and gives its figures.
func timed(t *testing.T, args ...string) (f figures) {
	t.Helper()
	var out, errw bytes.Buffer
	require.NoError(t, bench(context.Background(), append([]string{"-json"}, args...), &out, &errw))
	require.NoError(t, json.Unmarshal(out.Bytes(), &f))
	return f
}

// TestTimes: every model that is small enough trains, in the memory that was predicted, and the figures fit together.
func TestTimes(t *testing.T) {
	for _, args := range [][]string{
		{"-model", "mlp", "-batch", "4"}, {"-model", "cnn", "-batch", "2"}, {"-model", "vit", "-batch", "1"}, {"-batch", "2", "-layers", "1", "-tokens", "16"},
	} {
		f := timed(t, append(args, "-steps", "2", "-threads", "2")...)
		require.Equal(t, *f.PredictedPeak, *f.MeasuredPeak, args)
		require.Equal(t, warmUp+2, f.Steps)
		step, _ := f.StepMS.Value()
		fwd, _ := f.FwdMS.Value()
		bwd, _ := f.BwdMS.Value()
		require.Greater(t, step, 0.0)
		require.Greater(t, fwd, 0.0)
		require.Greater(t, bwd, 0.0)
		rate, _ := f.Rate.Value()
		c, err := parse(args, io.Discard)
		require.NoError(t, err)
		require.InEpsilon(t, float64(f.Batch*c.model.units)/step*1e3, rate, 1e-9)
		if f.RSS != nil {
			require.Greater(t, *f.RSS, *f.MeasuredPeak, "of the whole process")
		}
		first, ok := f.LossFirst.Value()
		require.True(t, ok)
		require.Greater(t, first, 1.0)
	}
}

// TestSized: arithmetic follows layers and tokens, in attention twice.
func TestSized(t *testing.T) {
	m, err := row.Find("model", "babygpt", models)
	require.NoError(t, err)
	same, err := m.sized(0, 0)
	require.NoError(t, err)
	require.Same(t, m, same)
	double, err := m.sized(12, 0)
	require.NoError(t, err)
	head := 6.0 * 65 * 384
	require.InEpsilon(t, 2*(m.flop-head)+head, double.flop, 1e-12)
	long, err := m.sized(0, 512)
	require.NoError(t, err)
	require.InEpsilon(t, m.flop+6*6*2*256*384, long.flop, 1e-12)
	require.Equal(t, 512, long.gpt.Context)
}

// TestInfer: without gradients there is nothing but parameters, inputs and what is at work.
func TestInfer(t *testing.T) {
	small := []string{"-batch", "1", "-steps", "1", "-layers", "2", "-tokens", "32"}
	train, infer := timed(t, small...), timed(t, append(small, "-infer")...)
	require.Zero(t, infer.ByKind[memory.Grad])
	require.Zero(t, infer.ByKind[memory.OptState])
	require.Zero(t, infer.ByKind[memory.Activation])
	require.Equal(t, train.LossFirst, infer.LossFirst)
	require.Equal(t, *infer.PredictedPeak, *infer.MeasuredPeak)
}

// TestCheckpoint: blocks that run again keep less, and train the same.
func TestCheckpoint(t *testing.T) {
	small := []string{"-batch", "4", "-steps", "1", "-layers", "3"}
	plain, again := timed(t, small...), timed(t, append(small, "-checkpoint")...)
	require.Less(t, again.ByKind[memory.Activation], plain.ByKind[memory.Activation])
	require.Equal(t, plain.LossLast, again.LossLast)
	require.Equal(t, *again.PredictedPeak, *again.MeasuredPeak)
}

func TestSaved(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, bench(context.Background(), []string{"-model", "mlp", "-batch", "2", "-saved"}, &out, &errw))
	require.Contains(t, out.String(), "cross_entropy")
	require.Contains(t, out.String(), "float32[2 512]")
}

func TestText(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, bench(context.Background(), []string{"-model", "mlp", "-batch", "2", "-steps", "1"}, &out, &errw))
	for _, text := range []string{"mlp, batch 2", "GFLOP/s", "predicted", "img/s"} {
		require.Contains(t, out.String(), text)
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-model", "resnet"}, `bench: -model "resnet": want one of babygpt, gpt2, mlp, cnn, vit`},
		{[]string{"-batch", "-1"}, "-batch -1: want 0 or more"},
		{[]string{"-steps", "0"}, "-steps 0: want 1 or more"},
		{[]string{"-model", "cnn", "-checkpoint"}, "want a model of blocks"},
		{[]string{"-saved", "-infer"}, "want neither"},
		{[]string{"-model", "mlp", "-layers", "3"}, "want a GPT"},
		{[]string{"-tokens", "-3"}, "-tokens -3: want 0 or more"},
		{[]string{"more"}, "want flags only"},
	} {
		var out, errw bytes.Buffer
		require.ErrorContains(t, bench(context.Background(), c.args, &out, &errw), c.want)
		require.Empty(t, out.String())
	}
}
