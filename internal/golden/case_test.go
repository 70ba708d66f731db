package golden

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

var dir = flag.String("golden", "testdata", "folder of the reference values")

// load reads one file of the set.
func load(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(*dir, name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into), name)
}

// number is a JSON number, "nan", "inf", "-inf", or a truth value.
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	var s any
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if yes, ok := s.(bool); ok {
		*n = 0
		if yes {
			*n = 1
		}
		return nil
	}
	v, err := strconv.ParseFloat(fmt.Sprint(s), 64)
	*n = number(v)
	return err
}

// array is a tensor of a file.
type array struct {
	Shape []int
	DType string
	Data  []number
}

func (a *array) floats() []float64 {
	out := make([]float64, len(a.Data))
	for i, v := range a.Data {
		out[i] = float64(v)
	}
	return out
}

// bench is a session with its device.
type bench struct {
	t    testing.TB
	dev  *memory.Device
	sess *autograd.Session
}

func newBench(t testing.TB) *bench {
	t.Helper()
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 32})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1})
	require.NoError(t, err)
	return &bench{t, dev, sess}
}

// close fails if anything is left.
func (b *bench) close() {
	b.t.Helper()
	require.NoError(b.t, b.sess.Close())
	require.NoError(b.t, b.dev.Close())
}

var site = memory.Site{Op: "golden"}

// tensor puts a on the device; the caller releases it.
func (b *bench) tensor(a *array) *tensor.Tensor {
	b.t.Helper()
	dt, err := tensor.ParseDType(a.DType)
	require.NoError(b.t, err)
	f, err := tensor.From(b.dev, memory.Input, site, a.floats(), a.Shape...)
	require.NoError(b.t, err)
	defer f.Release()
	t, err := f.To(dt, memory.Input, site)
	require.NoError(b.t, err)
	return t
}

// read gives the elements of t as float64.
func (b *bench) read(t *tensor.Tensor) []float64 {
	b.t.Helper()
	f, err := t.To(tensor.Float64, memory.Other, site)
	require.NoError(b.t, err)
	defer f.Release()
	return append([]float64(nil), tensor.Data[float64](f)...)
}

// requireNear compares element by element: relative to the reference, plus absolute.
func requireNear(t testing.TB, want, got []float64, relative, absolute float64, what string) {
	t.Helper()
	require.Equal(t, len(want), len(got), what)
	for i, w := range want {
		g := got[i]
		same := g == w || math.IsNaN(w) && math.IsNaN(g)
		if !same && !(math.Abs(g-w) <= relative*math.Abs(w)+absolute) {
			require.FailNow(t, fmt.Sprintf("%s: element %d is %.9g: want %.9g", what, i, g, w))
		}
	}
}
