package nn_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// reference is a file in the layout of the format's own library: every dtype, one that Thimble does not have, an empty
// tensor, and metadata.
const reference = "testdata/reference.safetensors"

func TestOpenSafetensors(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	f, err := nn.OpenSafetensors(reference)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.Equal(t, []string{"wide", "net.bias", "net.weight", "half", "brain", "short", "bytes", "none", "flag"}, f.Names())
	require.Equal(t, map[string]string{"format": "pt"}, f.Metadata())
	for _, c := range []struct {
		name, spec string
		want       []float64
	}{
		{"wide", "float64[2]", []float64{1.5, -2}},
		{"net.bias", "float32[2]", []float64{.5, -.5}},
		{"net.weight", "float32[2 3]", []float64{1, 2, 3, 4, 5, 6}},
		{"half", "float16[2]", []float64{1, -2}},
		{"brain", "bfloat16[2]", []float64{1, -2}},
		{"bytes", "uint8[3]", []float64{1, 2, 255}},
		{"none", "float32[0 4]", nil},
		{"flag", "bool[2]", []float64{1, 0}},
	} {
		spec, err := f.Spec(c.name)
		require.NoError(t, err)
		require.Equal(t, c.spec, spec.String())
		x, err := f.Load(c.name, r.dev, memory.Other)
		require.NoError(t, err)
		require.Equal(t, spec.Bytes(), r.dev.Stats().Live, "nothing but the tensor")
		flat, err := x.Reshape(x.Elems())
		require.NoError(t, err)
		for i, v := range c.want {
			require.Equal(t, v, flat.At(i))
		}
		x.Release()
	}
	for name, want := range map[string]string{
		"short": "testdata/reference.safetensors: short: dtype I16: want one of",
		"wrong": `there is no "wrong" among 9 tensors`,
	} {
		_, err := f.Spec(name)
		require.ErrorContains(t, err, want)
		_, err = f.Load(name, r.dev, memory.Other)
		require.ErrorContains(t, err, want)
	}
	y := r.uniform(tensor.Float64, 3, 2)
	defer y.Release()
	require.ErrorContains(t, f.Read("net.weight", y), "net.weight is float32[2 3]: want the shape of float64[3 2]")
	z := r.uniform(tensor.Float64, 2, 3)
	defer z.Release()
	require.NoError(t, f.Read("net.weight", z), "a conversion that was asked for by the dtype of dst")
	require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, tensor.Data[float64](z))

	r.dev.FailAt(1)
	_, err = f.Load("wide", r.dev, memory.Other)
	var oom *memory.OOMError
	require.ErrorAs(t, err, &oom)
	require.ErrorContains(t, err, "reference.safetensors: wide")
}

func TestOpenSafetensorsRefuses(t *testing.T) {
	_, err := nn.OpenSafetensors("testdata/missing")
	require.ErrorIs(t, err, os.ErrNotExist)
	raw, err := os.ReadFile(reference)
	require.NoError(t, err)
	for n := range raw { // every shorter file
		path := filepath.Join(t.TempDir(), "short")
		require.NoError(t, os.WriteFile(path, raw[:n], 0o600))
		_, err := nn.OpenSafetensors(path)
		require.ErrorContains(t, err, "nn: safetensors: "+path+": ")
	}
}

func TestSafetensorsThereAndBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	r := newRig(t, 1)
	defer r.close()
	m := newLM(r)
	live := r.dev.Stats().Live
	require.NoError(t, nn.SaveSafetensors(path, m, map[string]string{"format": "pt"}))
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, nn.SaveSafetensors(path, m, map[string]string{"format": "pt"}))
	second, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, first, second, "same values, same bytes")
	require.Equal(t, live, r.dev.Stats().Live)

	q := newRig(t, 2)
	defer q.close()
	n := newLM(q)
	q.dev.ResetPeak()
	require.NoError(t, nn.LoadSafetensors(path, n, nn.LoadConfig{}))
	require.Equal(t, q.dev.Stats().Live, q.dev.Stats().Peak, "straight into the parameters")
	equalStates(t, nn.StateDict(m), nn.StateDict(n))

	sd, err := nn.StateDict(m).Clone()
	require.NoError(t, err)
	defer sd.Release()
	require.NoError(t, nn.SaveSafetensors(path, sd, map[string]string{"format": "pt"}))
	third, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, first, third)
}

func equalStates(t *testing.T, a, b nn.State) {
	t.Helper()
	require.Equal(t, len(a), len(b))
	for i := range a {
		require.Equal(t, a[i].Name, b[i].Name)
		require.True(t, tensor.Equal(a[i].Tensor, b[i].Tensor), a[i].Name)
	}
}

// A parameter that lives in a Home is fetched and put back, one at a time.
func TestSafetensorsOfAHome(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	r, q := newRig(t, 1), newRig(t, 2)
	defer r.close()
	defer q.close()
	m, n := newLM(r), newLM(q)
	for _, p := range nn.AllParams(n) {
		require.NoError(t, p.SetHome(&shelf{}))
	}
	require.NoError(t, nn.SaveSafetensors(path, m, nil))
	require.NoError(t, nn.LoadSafetensors(path, n, nn.LoadConfig{}))
	again := filepath.Join(t.TempDir(), "again")
	require.NoError(t, nn.SaveSafetensors(again, n, nil))
	a, err := os.ReadFile(path)
	require.NoError(t, err)
	b, err := os.ReadFile(again)
	require.NoError(t, err)
	require.Equal(t, a, b)
}

// shelf is a Home on the same device.
type shelf struct{ value tensor.Tensor }

func (h *shelf) Fetch(*memory.Device, string, tensor.Spec) (tensor.Tensor, error) {
	t, err := h.value.Contiguous(memory.Param, site)
	return *t, err
}

func (h *shelf) Put(_ string, t tensor.Tensor) error {
	c, err := t.Contiguous(memory.Other, site)
	if err == nil {
		h.value.Release()
		h.value = *c
	}
	return err
}

func (h *shelf) PutGrad(string, tensor.Tensor) error { return nil }

func (h *shelf) ForgetGrad(string) {}

func (h *shelf) Forget(string) { h.value.Release() }

func (h *shelf) Grad(*memory.Device, string, tensor.Spec) (tensor.Tensor, error) {
	return tensor.Tensor{}, nil
}

// pair is a model that matches tensors of the reference file.
type pair struct {
	Net  net32
	Wide *autograd.Param
}

type net32 struct{ Weight, Bias *autograd.Param }

func newPair(r *rig, dt tensor.DType) *pair {
	p := func(shape ...int) *autograd.Param {
		p, err := r.sess.NewParam("p", tensor.Of(dt, shape...), nil)
		require.NoError(r.t, err)
		return p
	}
	return &pair{net32{p(2, 3), p(2)}, p(2)}
}

func TestLoadSafetensorsIsStrict(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m := newPair(r, tensor.Float32)
	err := nn.LoadSafetensors(reference, m, nn.LoadConfig{})
	for _, text := range []string{
		"nn: LoadSafetensors: testdata/reference.safetensors: *nn_test.pair: nothing loaded: 7 names do not match",
		"wide: got wide float64[2]: want float32[2] (LoadConfig.Convert rounds)", "unexpected: half F16[2]", "unexpected: short I16[1]",
		"unexpected: flag BOOL[2]",
	} {
		require.ErrorContains(t, err, text)
	}
	require.Equal(t, make([]float32, 6), tensor.Data[float32](m.Net.Weight.Tensor()))

	only := func(name string) string {
		if strings.HasPrefix(name, "net.") || name == "wide" {
			return name
		}
		return ""
	}
	require.ErrorContains(t, nn.LoadSafetensors(reference, m, nn.LoadConfig{Rename: only}), "LoadConfig.Convert")
	require.NoError(t, nn.LoadSafetensors(reference, m, nn.LoadConfig{Rename: only, Convert: true}))
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, tensor.Data[float32](m.Net.Weight.Tensor()))
	require.Equal(t, []float32{1.5, -2}, tensor.Data[float32](m.Wide.Tensor()))

	require.NoError(t, nn.LoadSafetensors(reference, &m.Net, nn.LoadConfig{Prefix: "net."}))
	err = nn.LoadSafetensors(reference, &m.Net, nn.LoadConfig{Prefix: "n"})
	require.ErrorContains(t, err, "unexpected: et.bias F32[2]")
	require.ErrorContains(t, err, "missing: bias float32[2]")
	err = nn.LoadSafetensors(reference, &m.Net, nn.LoadConfig{Convert: true, Rename: func(name string) string {
		return map[string]string{"wide": "bias", "net.bias": "bias", "net.weight": "weight"}[name]
	}})
	require.ErrorContains(t, err, "bias: given twice")
	err = nn.LoadSafetensors(reference, &m.Net, nn.LoadConfig{Rename: func(name string) string {
		return map[string]string{"short": "bias", "net.weight": "weight"}[name]
	}})
	require.ErrorContains(t, err, "bias: got short I16[1]: want float32[2]")

	r.step(func(*autograd.Scope) {
		require.ErrorContains(t, nn.LoadSafetensors(reference, &m.Net, nn.LoadConfig{Prefix: "net."}), "while a Step")
	})
}

// Every allocation of a load with conversion can fail; what it took is given back.
func TestLoadSafetensorsConverts(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	path := filepath.Join(t.TempDir(), "big")
	x := r.uniform(tensor.Float32, 100_003)
	defer x.Release()
	require.NoError(t, nn.SaveSafetensors(path, nn.State{{Name: "p", Tensor: x}}, nil))
	p, err := r.sess.NewParam("p", tensor.Of(tensor.Float64, 100_003), nil)
	require.NoError(t, err)
	m := struct{ P *autograd.Param }{p}
	live := r.dev.Stats().Live
	r.dev.ResetPeak()
	require.NoError(t, nn.LoadSafetensors(path, m, nn.LoadConfig{Convert: true}))
	require.Equal(t, live+1<<17, r.dev.Stats().Peak)
	for i, v := range tensor.Data[float32](x) {
		require.Equal(t, float64(v), tensor.Data[float64](p.Tensor())[i])
	}
	r.dev.FailAt(1)
	err = nn.LoadSafetensors(path, m, nn.LoadConfig{Convert: true})
	require.ErrorContains(t, err, "p: ")
	require.ErrorContains(t, err, "0 of 1 tensors had been replaced")
	require.Equal(t, live, r.dev.Stats().Live)
}

// A tied parameter may be there under all its names, as torch saves it, with one value.
func TestLoadSafetensorsTied(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m, path := newLM(r), filepath.Join(t.TempDir(), "tied")
	sd, err := nn.StateDict(m).Clone()
	require.NoError(t, err)
	defer sd.Release()
	twin := sd.Get("wte.weight")
	require.NoError(t, nn.SaveSafetensors(path, append(sd, nn.Entry{Name: "head.weight", Tensor: twin}), nil))
	require.NoError(t, nn.LoadSafetensors(path, m, nn.LoadConfig{}))
	other, err := twin.Contiguous(memory.Other, site)
	require.NoError(t, err)
	defer other.Release()
	require.NoError(t, tensor.Fill(other, 3))
	require.NoError(t, nn.SaveSafetensors(path, append(sd, nn.Entry{Name: "head.weight", Tensor: other}), nil))
	require.ErrorContains(t, nn.LoadSafetensors(path, m, nn.LoadConfig{}), "wte.weight: other values than head.weight, and they are one tied parameter")
}

func TestSaveSafetensorsRefuses(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m := newLM(r)
	path := filepath.Join(t.TempDir(), "no", "model")
	require.ErrorContains(t, nn.SaveSafetensors(path, m, nil), path)
	x := r.uniform(tensor.Float32, 1)
	require.ErrorContains(t, nn.SaveSafetensors(path, nn.State{{Name: "x", Tensor: x}, {Name: "x", Tensor: x}}, nil), `"x" is taken`)
	x.Release()
	require.ErrorContains(t, nn.SaveSafetensors(path, nn.State{{Name: "x", Tensor: x}}, nil), "x: the buffer was released")
	m.WTE.Weight.Release()
	require.ErrorContains(t, nn.SaveSafetensors(path, m, nil), "wte.weight: the parameter was released")
}
