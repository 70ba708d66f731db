package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

func TestMain(m *testing.M) {
	row.ServeChild(run)
	os.Exit(m.Run())
}

// tiny are the flags of a model that trains in no time.
var tiny = []string{"-steps", "60", "-batch", "2", "-context", "32", "-dim", "32"}

// rowsOf runs the program with -json and gives its rows by name, and their names.
func rowsOf(t *testing.T, args ...string) (rows map[string]figures, names []string) {
	t.Helper()
	var out, errw bytes.Buffer
	chart := filepath.Join(t.TempDir(), "chart.png")
	require.NoError(t, rounds(context.Background(), append(args, "-json", "-chart", chart), &out, &errw), "%s", errw.String())
	_, err := row.ReadJSON(bytes.NewReader(out.Bytes())) // one array, and nothing else
	require.NoError(t, err)
	require.FileExists(t, chart)
	var list []figures
	require.NoError(t, json.Unmarshal(out.Bytes(), &list))
	rows = map[string]figures{}
	for _, f := range list {
		require.Equal(t, *f.PredictedPeak, *f.MeasuredPeak, f.Name)
		rows[f.Name], names = f, append(names, f.Name)
	}
	return rows, names
}

func number(t *testing.T, n row.Number) float64 {
	t.Helper()
	v, ok := n.Value()
	require.True(t, ok)
	return v
}

// TestRows: the five rows, what they take, and that the forced overflow costs one update and half the scale.
func TestRows(t *testing.T) {
	rows, names := rowsOf(t, tiny...)
	require.Equal(t, []string{"float32", "bf16-autocast", "fp16-autocast", "bf16-stochastic", "bf16-nearest"}, names)
	base := rows["float32"]
	last := number(t, base.LossLast)
	for _, f := range rows {
		require.Len(t, f.Losses, 60)
		require.InEpsilon(t, math.Log(256), number(t, f.LossFirst), 0.02, "a new model knows nothing")
		require.InEpsilon(t, last, number(t, f.LossLast), 0.02, f.Name)
	}
	for _, name := range names[1:] {
		require.Greater(t, float64(base.ByKind[memory.Activation]), 1.6*float64(rows[name].ByKind[memory.Activation]), name)
	}
	for _, kind := range []memory.Kind{memory.Param, memory.OptState} {
		require.Equal(t, base.ByKind[kind], 2*rows["bf16-stochastic"].ByKind[kind])
		require.Equal(t, base.ByKind[kind], rows["bf16-autocast"].ByKind[kind])
	}

	fp16 := rows["fp16-autocast"]
	require.Positive(t, fp16.Skipped, "the forced one, and where the scale grew too far")
	at := 60 / 2
	require.Equal(t, fp16.Scales[at]/2, fp16.Scales[at+1])
	require.Equal(t, fp16.Scales[0]*8, fp16.Scales[at], "it grew every eighth update until then")
	require.Zero(t, base.Skipped)
	require.Equal(t, fp16.Losses[at+1], must(rowsOf(t, append(tiny, "-row", "fp16-autocast", "-threads", "1")...))["fp16-autocast"].Losses[at+1], "same seed, same bits")
}

func must(rows map[string]figures, _ []string) map[string]figures { return rows }

// TestText: people also see the model that is wholly in float16, which has no loss to show.
func TestText(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, rounds(context.Background(), []string{"-steps", "8", "-chart", ""}, &out, &errw))
	require.Regexp(t, `(?m)^fp16-all \[1\] .* - +\d\.\d+ +- +- +0$`, out.String())
	for _, text := range []string{"against first", "skipped", "bf16-autocast: activations ", "[1] everything in float16"} {
		require.Contains(t, out.String(), text)
	}
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len(line), 170)
	}
}

// TestTrace: every op of the first block, why it has its dtypes, and what becomes of gradients under three scales.
func TestTrace(t *testing.T) {
	told := func(args ...string) string {
		var out, errw bytes.Buffer
		require.NoError(t, rounds(context.Background(), append(append([]string{"-trace"}, tiny...), args...), &out, &errw))
		return out.String()
	}
	text := told()
	for _, re := range []string{
		`attn +cast +float32 -> float16\n.*a product follows`,
		`linear +float16, float32 blocks.0.qkv.weight, float32 blocks.0.qkv.bias -> float16\n.*a product: the time`,
		`add +float16, float32 -> float32\n.*float16 meets float32`,
		`gelu_tanh +float16 -> float16\n.*rounded once`,
		`reshape +float16 -> float16\n  loss`, // a view says nothing
		`linear_cross_entropy .*\n.*in float32 whatever comes`,
		`loss/gpt/blocks.1 +\d\d ops, the same`,
		`scale 1 +scale 65536 +scale 2\^40`,
		`mlp/3 +linear +float16 +up to \S+.* +up to \S+ .* 100% overflow`,
		`Scale 65536: every gradient of a parameter is finite`,
		`Scale 2\^40: element \d+ of the gradient of \S+ is .*skipped, nothing moves, and the scale becomes 2\^39`,
	} {
		require.Regexp(t, re, text)
	}
	require.NotContains(t, told("-row", "float32"), "float16")
	require.Contains(t, told("-row", "bf16-autocast"), "float32 -> bfloat16")
	require.NotContains(t, told("-row", "bf16-autocast"), "Scale")
}

// TestMisuse: each error says what was given and what was wanted.
func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args  []string
		texts []string
	}{
		{[]string{"-row", "nothing"}, []string{`row "nothing"`, "want one of float32, bf16-autocast"}},
		{[]string{"-steps", "0"}, []string{"-steps 0", "want 1 or more"}},
		{[]string{"-dim", "3"}, []string{"-dim 3", "want a multiple of 2"}},
		{[]string{"-data", filepath.Join(t.TempDir(), "missing")}, []string{"missing"}},
		{[]string{"-steps", "1000000"}, []string{"1000000 steps of batch 4", "the text has only"}},
		{[]string{"fast"}, []string{`argument "fast"`, "-help"}},
	} {
		var out, errw bytes.Buffer
		err := rounds(context.Background(), append([]string{"-chart", ""}, c.args...), &out, &errw)
		require.Error(t, err, "%v", c.args)
		for _, text := range c.texts {
			require.ErrorContains(t, err, text, "%v", c.args)
		}
	}
}
