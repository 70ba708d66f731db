package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

// estimated runs the program with -json and gives its row.
func estimated(t *testing.T, args ...string) (f figures) {
	t.Helper()
	var out, errw bytes.Buffer
	require.NoError(t, estimate(t.Context(), append(args, "-json"), &out, &errw))
	require.Empty(t, errw.String())
	text := out.String()
	rows, err := row.ReadJSON(&out)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	var list []figures
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	require.Equal(t, rows[0], list[0].Row)
	require.Nil(t, rows[0].MeasuredPeak)
	require.Equal(t, *rows[0].PredictedPeak, rows[0].ByKind.Sum())
	return list[0]
}

// TestLlama: the weights, gradients and moments of Llama 7B, to the byte, in little time and memory.
func TestLlama(t *testing.T) {
	start := time.Now()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f := estimated(t)
	runtime.ReadMemStats(&after)
	require.Equal(t, int64(6_738_415_616), f.Parameters)
	require.Equal(t, int64(107_814_649_856), f.StateBytes)
	require.Equal(t, 4*f.Parameters, f.ByKind[memory.Param])
	require.Equal(t, 8*f.Parameters, f.ByKind[memory.OptState])
	require.Greater(t, f.Peak(), f.StateBytes)
	require.Less(t, time.Since(start), 5*time.Second)
	require.Less(t, after.Sys, before.Sys+200_000_000)
}

func TestModels(t *testing.T) {
	for name, want := range map[string]int64{
		"gpt2": 124_439_808, "gpt2-medium": 354_823_168, "vitl16": 303_311_882, "babygpt": 10_844_160, "mlp": 669_706,
	} {
		f := estimated(t, "-model", name)
		require.Equal(t, want, f.Parameters, name)
		require.Equal(t, 16*want, f.StateBytes, name)
	}
}

// TestOptimizers: whole tensors of state for each parameter; Adafactor's is small.
func TestOptimizers(t *testing.T) {
	for name, want := range map[string]int64{"adam": 2, "adamw": 2, "sgd": 0, "sgd-momentum": 1, "lion": 1} {
		f := estimated(t, "-model", "babygpt", "-optimizer", name)
		require.Equal(t, (2+want)*4*f.Parameters, f.StateBytes, name)
	}
	f := estimated(t, "-model", "babygpt", "-optimizer", "adafactor")
	require.Greater(t, f.StateBytes, 8*f.Parameters)
	require.Less(t, f.StateBytes, 8*f.Parameters+8*f.Parameters/100)
}

func TestBatchAndSequence(t *testing.T) {
	one := estimated(t, "-model", "gpt2", "-seq", "64")
	four := estimated(t, "-model", "gpt2", "-seq", "64", "-batch", "4")
	require.Equal(t, one.StateBytes, four.StateBytes)
	require.Greater(t, four.ByKind[memory.Activation], 3*one.ByKind[memory.Activation])
	whole := estimated(t, "-model", "gpt2")
	require.Greater(t, whole.Peak(), four.Peak())
	long := estimated(t, "-seq", "4096")
	require.Equal(t, int64(2*4096*8), long.ByKind[memory.Input])
}

func TestText(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, estimate(t.Context(), nil, &out, &errw))
	for _, text := range []string{"6,738,415,616", "107,814,649,856", "optstate", "7.0e9 x 16 bytes = 112 GB", "107.8 GB"} {
		require.Contains(t, out.String(), text)
	}
	out.Reset()
	require.ErrorIs(t, estimate(t.Context(), []string{"-help"}, &out, &errw), flag.ErrHelp)
	require.Empty(t, out.String())
	require.Contains(t, errw.String(), "llama7b, gpt2")
}

// TestMisuse: each error says what was given and what was wanted.
func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args  []string
		texts []string
	}{
		{[]string{"-model", "gpt5"}, []string{`model "gpt5"`, "want one of llama7b, gpt2, gpt2-medium, babygpt, vitl16, mlp"}},
		{[]string{"-optimizer", "muon"}, []string{`optimizer "muon"`, "want one of adamw, adam, sgd, sgd-momentum, adafactor, lion"}},
		{[]string{"-batch", "0"}, []string{"-batch 0", "want 1 or more"}},
		{[]string{"-model", "gpt2", "-seq", "1025"}, []string{"seq 1025", "want at most 1024"}},
		{[]string{"-model", "mlp", "-seq", "8"}, []string{"seq 8", "mlp takes no sequences"}},
		{[]string{"gpt2"}, []string{`argument "gpt2"`, "-help"}},
	} {
		var out, errw bytes.Buffer
		err := estimate(t.Context(), c.args, &out, &errw)
		require.Error(t, err, "%v", c.args)
		for _, text := range c.texts {
			require.ErrorContains(t, err, text, "%v", c.args)
		}
		require.Empty(t, out.String())
	}
}
