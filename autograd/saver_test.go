package autograd_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// hostSaver is the test double of the Saver seam: it copies storages to a second device.
type hostSaver struct {
	host    *memory.Device
	packs   int
	unpacks int
	drops   int
	specs   []tensor.Spec
	failAt  int // the n-th Pack or Unpack fails
	wrong   bool
}

var errHost = errors.New("host is full")

func (h *hostSaver) fail() error {
	if h.failAt--; h.failAt == 0 {
		return errHost
	}
	return nil
}

func (h *hostSaver) Pack(t *tensor.Tensor, at memory.Site) (any, error) {
	if err := h.fail(); err != nil {
		return nil, err
	}
	if t.Buffer().Kind() == memory.Input { // the caller holds it anyway
		return nil, nil
	}
	c, err := tensor.New(h.host, memory.Activation, at, t.Spec())
	if err != nil {
		return nil, err
	}
	h.packs++
	h.specs = append(h.specs, t.Spec())
	return c, tensor.Copy(c, t)
}

func (h *hostSaver) Unpack(d *memory.Device, handle any) (tensor.Tensor, error) {
	if err := h.fail(); err != nil {
		return tensor.Tensor{}, err
	}
	h.unpacks++
	c := handle.(*tensor.Tensor)
	spec := c.Spec()
	if h.wrong {
		spec = tensor.Of(tensor.Float64, 1)
	}
	t, err := tensor.Make(d, memory.Activation, memory.Site{Op: "unpack"}, spec)
	if err != nil || h.wrong {
		return t, err
	}
	return t, tensor.Copy(&t, c)
}

func (h *hostSaver) Drop(handle any) {
	h.drops++
	handle.(*tensor.Tensor).Release()
}

func TestSaver(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	host, err := memory.NewDevice(memory.Config{Name: "host", Reserve: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, host.Close()) }()
	w := r.param("w", []float64{1, 2, 3, 4}, 4)
	x := r.tensor([]float64{1, 2, 3, 4}, 4)
	defer x.Release()
	forward := func(s *autograd.Scope) *autograd.Value {
		return s.Do("net", func(s *autograd.Scope) *autograd.Value {
			h := mul(s, w.Value(), s.Input(x))
			a, b := halves(s, h)
			y := mul(s, a, b) // two views of one storage
			z := mul(s, h, h) // and the storage itself
			return add(s, sum(s, mul(s, y, y)), sum(s, z))
		})
	}
	r.ok(func(s *autograd.Scope) { forward(s).Backward(s) })
	want := append([]float64(nil), grad(w)...)
	w.ZeroGrad()

	sv := &hostSaver{host: host}
	r.ok(func(s *autograd.Scope) {
		live := r.dev.Stats().Live
		loss := forward(s.WithSaver(sv))
		require.Equal(t, live+8, r.dev.Stats().Live, "all that is saved has left the device")
		var inMemory int64
		for _, e := range autograd.Saved(loss) {
			if e.Where == autograd.InMemory {
				inMemory += e.Bytes
			}
		}
		require.EqualValues(t, 32, inMemory, "x, which the rig holds")
		loss.Backward(s)
	})
	require.Equal(t, want, grad(w))
	require.Equal(t, 2, sv.packs, "h and y once each: %v", sv.specs) // R4
	require.Equal(t, 3, sv.unpacks, "each op that reads a storage unpacks it once, whatever views it reads")
	require.Equal(t, sv.packs, sv.drops)
	require.Zero(t, host.Stats().Live)
	w.ZeroGrad()

	t.Run("errors", func(t *testing.T) {
		calls := 0
		for k := 1; ; k++ {
			sv := &hostSaver{host: host, failAt: k}
			err := r.step(func(s *autograd.Scope) { forward(s.WithSaver(sv)).Backward(s) })
			require.Equal(t, sv.packs, sv.drops)
			require.Zero(t, host.Stats().Live)
			if err == nil {
				break
			}
			require.ErrorIs(t, err, errHost)
			require.EqualValues(t, 64, r.dev.Stats().Live)
			calls++
		}
		require.GreaterOrEqual(t, calls, 5)
		w.ZeroGrad()
	})
	t.Run("wrong", func(t *testing.T) {
		r.t = t
		r.fails(func(s *autograd.Scope) {
			forward(s.WithSaver(&hostSaver{host: host, wrong: true})).Backward(s)
		}, "the saver packed float64[", "unpacked float64[1]")
		require.Zero(t, host.Stats().Live)
	})
	t.Run("dry", func(t *testing.T) {
		sv := &hostSaver{host: host}
		f := func(s *autograd.Scope) error { forward(s.WithSaver(sv)).Backward(s); return nil }
		plantest.Compare(t, r.sess, f)
	})
}

func TestSavedNamesWhatIsKept(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2, 3, 4}, 4)
	x := r.tensor([]float64{1, 2, 3, 4}, 4)
	defer x.Release()
	r.ok(func(s *autograd.Scope) {
		loss := s.Do("net", func(s *autograd.Scope) *autograd.Value {
			h := mul(s, w.Value(), s.Input(x))
			return sum(s, mul(s, h, h))
		})
		got := autograd.Saved(loss)
		require.Equal(t, []autograd.SavedTensor{
			{Bytes: 32, Spec: x.Spec(), Op: "testmul", Scope: "net", Why: "input 1, for the gradient of input 0", Where: autograd.InMemory},
			{Bytes: 32, Spec: x.Spec(), Op: "testmul", Scope: "net", Why: "input 1, for the gradient of input 0", Where: autograd.InMemory},
			{Bytes: 0, Spec: x.Spec(), Op: "testmul", Scope: "net", Why: "input 0, for the gradient of input 1", Where: autograd.InMemory},
		}, got)
		require.Contains(t, autograd.FormatSaved(got), "64  bytes kept for backward")
		loss.Backward(s)
	})
}
