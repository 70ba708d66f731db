package autograd_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// entry is one of an op in a scope.
func entry(scope, op string, bytes int64) autograd.SavedTensor {
	return autograd.SavedTensor{Bytes: bytes, Spec: tensor.Of(tensor.Float32, int(bytes/4)), Op: op, Scope: scope, Why: "input 0, for the gradient of input 0", Where: autograd.InMemory}
}

// Equal layers in a row are one group; all else stays as it is, in the list's order, and no byte is lost.
func TestFoldSaved(t *testing.T) {
	list := []autograd.SavedTensor{
		entry("gpt/embed", "embedding", 8),
		entry("gpt/blocks.0/mlp/1", "linear", 0), // shares what the embedding keeps: not like the others
		entry("gpt/blocks.0/mlp/2", "gelu", 64),
		entry("gpt/blocks.1/mlp/1", "linear", 32),
		entry("gpt/blocks.1/mlp/2", "gelu", 64),
		entry("gpt/blocks.2/mlp/1", "linear", 32),
		entry("gpt/blocks.2/mlp/2", "gelu", 64),
		entry("gpt/blocks.3/mlp/1", "linear", 32),
		entry("gpt/blocks.3/mlp/2", "gelu", 64),
		entry("gpt/blocks.5/mlp/1", "linear", 32), // one is missing in between
		entry("gpt/blocks.5/mlp/2", "gelu", 64),
		entry("gpt/ln_f", "layer_norm", 16),
		entry("gpt", "linear", 16),
		entry("0", "relu", 4),
		entry("1", "relu", 4),
	}
	got := autograd.FoldSaved(list)
	require.Equal(t, []autograd.SavedGroup{
		{Layers: 1, Bytes: 8, Tensors: list[:1]},
		{Layers: 1, Bytes: 64, Tensors: list[1:3]},
		{Layers: 3, Scope: "gpt/blocks.*", First: 1, Last: 3, Bytes: 96, Tensors: []autograd.SavedTensor{entry("gpt/blocks.*/mlp/1", "linear", 32), entry("gpt/blocks.*/mlp/2", "gelu", 64)}},
		{Layers: 1, Bytes: 96, Tensors: list[9:11]},
		{Layers: 1, Bytes: 32, Tensors: list[11:13]},
		{Layers: 2, Scope: "*", First: 0, Last: 1, Bytes: 4, Tensors: []autograd.SavedTensor{entry("*", "relu", 4)}},
	}, got)
	var sum, all int64
	for _, g := range got {
		sum += int64(g.Layers) * g.Bytes
	}
	for _, s := range list {
		all += s.Bytes
	}
	require.Equal(t, all, sum)
	require.Equal(t, "gpt/blocks.0/mlp/1", list[1].Scope, "the list is not changed")
	require.Contains(t, autograd.FormatSaved(list), fmt.Sprintf("%12d  bytes kept for backward\n", all))
	require.Empty(t, autograd.FoldSaved(nil))
}

// Names that only look like numbers of layers are names.
func TestFoldSavedNames(t *testing.T) {
	for _, pair := range [][2]string{
		{"conv1", "conv2"}, // no dot before the number
		{"a.0x", "a.1x"},
		{"a.99999999999", "a.100000000000"},
		{"", ""},
		{"blocks.0", "other.1"},
		{"blocks.1", "blocks.0"}, // not in order
	} {
		got := autograd.FoldSaved([]autograd.SavedTensor{entry(pair[0], "op", 4), entry(pair[1], "op", 4)})
		for _, g := range got {
			require.Equal(t, 1, g.Layers, "%v", pair)
			require.Empty(t, g.Scope)
		}
	}
	for _, change := range []func(*autograd.SavedTensor){
		func(s *autograd.SavedTensor) { s.Bytes++ },
		func(s *autograd.SavedTensor) { s.Spec = tensor.Of(tensor.Float64, 1) },
		func(s *autograd.SavedTensor) { s.Op = "other" },
		func(s *autograd.SavedTensor) { s.Why = "output 0" },
		func(s *autograd.SavedTensor) { s.Where = autograd.InSaver },
		func(s *autograd.SavedTensor) { s.Scope += "/inner" },
	} {
		a, b := entry("blocks.0", "op", 4), entry("blocks.1", "op", 4)
		require.Len(t, autograd.FoldSaved([]autograd.SavedTensor{a, b}), 1)
		change(&b)
		require.Len(t, autograd.FoldSaved([]autograd.SavedTensor{a, b}), 2)
	}
}

// What a graph keeps, with equal layers shown once.
func ExampleFormatSaved() {
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
	w, err := sess.NewParam("w", tensor.Of(tensor.Float64, 4), nil)
	if err != nil {
		log.Fatal(err)
	}
	err = sess.Step(context.Background(), func(s *autograd.Scope) error {
		h := mul(s.Named("first"), w.Value(), w.Value())
		for i := range 3 {
			h = mul(s.Named(fmt.Sprint("blocks.", i)), h, w.Value())
		}
		for _, line := range strings.Split(autograd.FormatSaved(autograd.Saved(h)), "\n") {
			fmt.Println(strings.TrimRight(line, " "))
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	//            0  float64[4]               testmul        first                    input 1, for the gradient of input 0 (param)
	//            0  float64[4]               testmul        first                    input 0, for the gradient of input 1 (param)
	//           96  x3 blocks.*, 0 to 2, each:
	//              0  float64[4]               testmul        blocks.*                 input 1, for the gradient of input 0 (param)
	//             32  float64[4]               testmul        blocks.*                 input 0, for the gradient of input 1 (memory)
	//             32  a layer
	//           96  bytes kept for backward
}
