package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func TestHeld(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	host, err := memory.NewDevice(memory.Config{Name: "host", Reserve: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, host.Close()) }()
	w := r.param("w", []float64{1, 2, 3, 4}, 4)
	x := r.tensor([]float64{5, 6, 7, 8}, 4)
	defer x.Release()
	get := func(h *autograd.Held) []float64 {
		g, err := h.Get()
		require.NoError(t, err)
		defer g.Release()
		return append([]float64(nil), tensor.Data[float64](&g)...)
	}
	for _, sv := range []autograd.Saver{nil, &hostSaver{host: host}} {
		r.ok(func(s *autograd.Scope) {
			y := mul(s, w.Value(), s.Input(x))
			first, second := halves(s, y)
			live := r.dev.Stats().Live
			h, p := s.WithSaver(sv).Save(second, "test"), s.WithSaver(sv).Save(w.Value(), "test")
			require.True(t, h.RequiresGrad())
			require.Equal(t, tensor.Of(tensor.Float64, 2), h.Spec())
			require.Nil(t, h.Param())
			require.Same(t, w, p.Param())
			s.Free(y, first, second)
			if sv != nil {
				require.Equal(t, live-32, r.dev.Stats().Live, "the saver has it")
			} else {
				require.Equal(t, live, r.dev.Stats().Live)
			}
			require.Equal(t, []float64{21, 32}, get(h))
			require.Equal(t, []float64{21, 32}, get(h), "as often as one likes")
			require.Equal(t, []float64{1, 2, 3, 4}, get(p))
			h.Drop()
			h.Drop()
			p.Drop()
			require.Equal(t, live-32, r.dev.Stats().Live)
			_, err := h.Get()
			require.ErrorContains(t, err, "was dropped")
		})
	}
	r.ok(func(s *autograd.Scope) {
		y := mul(s, w.Value(), s.Input(x))
		h, p := s.Save(y, "test"), s.Save(w.Value(), "test")
		defer h.Drop()
		addInPlace(s, y, y)
		_, err := h.Get()
		require.ErrorContains(t, err, "float64[4], made by testmul, has been modified by an inplace operation: it is at version 1; expected version 0")
		addInPlace(s.NoGrad(), w.Value(), s.Input(x))
		_, err = p.Get()
		require.ErrorContains(t, err, "parameter w, has been modified")
	})
}

// passSaver leaves what it is given in place and notes what it is told.
type passSaver struct {
	sess   *autograd.Session
	path   string
	retain bool
	rests  int
	drops  int
	ended  int
}

func (p *passSaver) Pack(t *tensor.Tensor, _ memory.Site) (any, error) { return t.Retain(), nil }
func (p *passSaver) Unpack(_ *memory.Device, h any) (tensor.Tensor, error) {
	if s, retain := p.sess.PassScope("there"); s != nil {
		p.path, p.retain = s.Path(), retain
		s.OnClose(func() { p.ended++ })
	}
	return *h.(*tensor.Tensor).Retain(), nil
}
func (p *passSaver) Drop(h any) { p.drops++; h.(*tensor.Tensor).Release() }
func (p *passSaver) Rest(any)   { p.rests++ }

func TestPassSaver(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2}, 2)
	x := r.tensor([]float64{5, 6}, 2)
	defer x.Release()
	none, _ := r.sess.PassScope("")
	require.Nil(t, none)
	sv := &passSaver{sess: r.sess}
	r.ok(func(s *autograd.Scope) {
		c := s.WithSaver(sv)
		y := mul(c, w.Value(), s.Input(x))
		a := sum(s, mul(c, y, y)) // two readers of y
		b := sum(s, mul(c, y, w.Value()))
		h := c.Save(y, "test") // and a third
		a.Backward(s, autograd.RetainGraph())
		require.Equal(t, "there", sv.path)
		require.True(t, sv.retain)
		require.Equal(t, 2, sv.ended, "x and y were each read by one kernel: the closers have run")
		require.Equal(t, 1, sv.rests, "x: nobody else reads it; b and the Held have not read y")
		add(s, a, b).Backward(s, autograd.RetainGraph())
		require.Equal(t, 2, sv.rests, "x again; the Held has not read y")
		add(s, a, b).Backward(s)
		require.Equal(t, 2, sv.rests, "x is dropped at once")
		require.False(t, sv.retain)
		require.Equal(t, 1, sv.drops)
		h.Drop()
		require.Equal(t, 2, sv.drops)
	})
	w.ZeroGrad()
}

// What a memo keeps stays as it was: an in-place operation works on a copy.
func TestInPlaceOnWhatAMemoKeeps(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2, 3}, 3)
	x := r.tensor([]float64{4, 5, 6}, 3)
	defer x.Release()
	memo := &listMemo{op: "testmul"}
	r.ok(func(s *autograd.Scope) {
		s.OnClose(memo.drop)
		c := s.WithMemo(memo)
		y := mul(c, w.Value(), s.Input(x))
		z := addInPlace(c, y, s.Input(x))
		require.Equal(t, []float64{8, 15, 24}, tensor.Data[float64](z.Tensor()))
		require.Equal(t, []float64{4, 10, 18}, tensor.Data[float64](&memo.kept[0][0]))
		sum(s, mul(s, z, z)).Backward(s)
	})
	require.Equal(t, []float64{2 * 8 * 4, 2 * 15 * 5, 2 * 24 * 6}, grad(w))
	w.ZeroGrad()
	r.fails(func(s *autograd.Scope) {
		s.OnClose(memo.drop)
		c := s.WithMemo(memo)
		y := mul(c, w.Value(), s.Input(x))
		addInPlace(c, y, s.Input(x))
		mul(c, y, y)
	}, "was overwritten by an in-place operation")
}
