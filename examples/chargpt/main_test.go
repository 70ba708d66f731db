package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/examples/internal/row"
)

// tiny are the flags of a model that trains in no time.
var tiny = []string{"-steps", "20", "-batch", "8", "-context", "16", "-dim", "32", "-heads", "2", "-layers", "2", "-lr", "1e-2",
	"-dropout", "0.1", "-limit", "100000", "-sample", "30"}

// trained runs the program with -json and gives its figures, without times.
func trained(t *testing.T, args ...string) (f figures) {
	t.Helper()
	var out, errw bytes.Buffer
	require.NoError(t, chargpt(context.Background(), append(append([]string{"-json"}, tiny...), args...), &out, &errw))
	_, err := row.ReadJSON(strings.NewReader("[" + out.String() + "]"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out.Bytes(), &f))
	f.StepMS = row.Number{}
	for i := range f.Points {
		f.Points[i].Seconds = 0
	}
	return f
}

// TestLearns: the loss falls, in the memory that was predicted, and the seed decides all.
func TestLearns(t *testing.T) {
	f := trained(t)
	require.Equal(t, *f.PredictedPeak, *f.MeasuredPeak)
	require.Equal(t, *f.MeasuredPeak, f.ByKind.Sum())
	require.Len(t, f.Points, 10)
	begin, _ := f.Points[0].Loss.Value()
	end, _ := f.Loss.Value()
	require.InDelta(t, math.Log(256), begin, 0.3, "a new model knows nothing")
	require.Less(t, end, begin-1)
	before, _ := f.Points[0].Validation.Value()
	after, _ := f.Points[9].Validation.Value()
	require.Less(t, after, before-1)
	require.True(t, strings.HasPrefix(f.Sample, prompt))

	require.Equal(t, f, trained(t, "-threads", "1"))
	require.NotEqual(t, f.Points, trained(t, "-seed", "2").Points)
}

func TestText(t *testing.T) {
	var out, errw bytes.Buffer
	require.NoError(t, chargpt(context.Background(), append(tiny, "-steps", "3", "-temperature", "0"), &out, &errw))
	for _, text := range []string{
		"8 sequences of 16 bytes", " step    loss  validation", "3 updates", "peak memory: predicted ", "sample:\n\n\nfunc ",
	} {
		require.Contains(t, out.String(), text)
	}
}

func TestDraw(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	logits := []float32{0, float32(math.Log(3)), float32(math.Inf(-1))}
	require.Equal(t, byte(1), draw(logits, 0, random))
	var count [3]int
	for range 4000 {
		count[draw(logits, 1, random)]++
	}
	require.InDelta(t, 1000, count[0], 120)
	require.InDelta(t, 3000, count[1], 120)
	require.Equal(t, "a\n\tb\uFFFD\uFFFDé", printable([]byte("a\n\tb\x1b\xffé")))
}

// TestResume: a training that is interrupted and goes on is the one that was not.
func TestResume(t *testing.T) {
	table := func(args ...string) []string {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &cutter{after: "   10  ", cut: func() {}}
		cut := len(args) > 0 && !slices.Contains(args, "-resume")
		if cut {
			out.cut = cancel
		}
		err := chargpt(ctx, append(append([]string{}, tiny...), args...), out, &bytes.Buffer{})
		if cut {
			require.ErrorIs(t, err, context.Canceled)
		} else {
			require.NoError(t, err)
		}
		return regexp.MustCompile(`(?m)^ +\d+  \d\.\d+ +\d\.\d+`).FindAllString(out.String(), -1)
	}
	whole := table()
	require.Len(t, whole, 10)
	file := filepath.Join(t.TempDir(), "state")
	require.Equal(t, whole[:5], table("-save", file))
	require.Equal(t, whole[5:], table("-save", file, "-resume"))
	var out bytes.Buffer
	err := chargpt(t.Context(), append(append([]string{}, tiny...), "-save", file, "-resume"), &out, &out)
	require.ErrorContains(t, err, "has had its 20 updates")
	err = chargpt(t.Context(), append(append([]string{}, tiny...), "-save", file, "-resume", "-dim", "16"), &out, &out)
	require.ErrorContains(t, err, "model.blocks.0.fc.bias: it is F32[128] in the file: want float32[64]")
}

// cutter calls cut when it has been given a text.
type cutter struct {
	bytes.Buffer
	after string
	cut   func()
}

func (c *cutter) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(c.after)) {
		defer c.cut()
	}
	return c.Buffer.Write(b)
}

// TestMisuse: each error says what was given and what was wanted.
func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args  []string
		texts []string
	}{
		{[]string{"-data", filepath.Join(t.TempDir(), "missing")}, []string{"missing"}},
		{[]string{"-steps", "0"}, []string{"-steps 0", "want 1 or more"}},
		{[]string{"-context", "0"}, []string{"-context 0", "want 1 or more"}},
		{[]string{"-sample", "-1"}, []string{"-sample -1", "want 0 or more"}},
		{[]string{"-batch", "2000"}, []string{"batch 2000", "want at most 624", "16 bytes in 10000"}},
		{[]string{"-heads", "3"}, []string{"32", "3 heads"}},
		{[]string{"-dropout", "2"}, []string{"dropout"}},
		{[]string{"-lr", "0"}, []string{"-lr 0", "want more than 0"}},
		{[]string{"-resume"}, []string{"-resume without -save"}},
		{[]string{"-resume", "-save", filepath.Join(t.TempDir(), "none")}, []string{"train: Load", "none"}},
		{[]string{"fast"}, []string{`argument "fast"`, "-help"}},
	} {
		var out, errw bytes.Buffer
		err := chargpt(context.Background(), append(append([]string{}, tiny...), c.args...), &out, &errw)
		require.Error(t, err, "%v", c.args)
		for _, text := range c.texts {
			require.ErrorContains(t, err, text, "%v", c.args)
		}
	}
}
