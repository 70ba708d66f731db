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

// listMemo is the test double of the Memo seam: it keeps the outputs of one op, in order.
type listMemo struct {
	op   string
	kept [][]tensor.Tensor
	at   int
	fail bool
}

var errMemo = errors.New("memo")

func (m *listMemo) Record(rule *autograd.Rule, _ memory.Site, outs []tensor.Tensor) error {
	if rule.Name != m.op || m.at > 0 {
		return nil
	}
	if m.fail {
		return errMemo
	}
	var kept []tensor.Tensor
	for i := range outs {
		outs[i].Buffer().SetKind(memory.Activation)
		kept = append(kept, *outs[i].Retain())
	}
	m.kept = append(m.kept, kept)
	return nil
}

func (m *listMemo) Recall(rule *autograd.Rule, _ memory.Site, specs []tensor.Spec) ([]tensor.Tensor, bool, error) {
	if rule.Name != m.op {
		return nil, false, nil
	}
	var outs []tensor.Tensor
	for i := range m.kept[m.at] {
		outs = append(outs, *m.kept[m.at][i].Retain())
	}
	m.at++
	return outs, true, nil
}

func (m *listMemo) Keeps(b *memory.Buffer) bool {
	for _, outs := range m.kept {
		for i := range outs {
			if outs[i].Buffer() == b {
				return true
			}
		}
	}
	return false
}

func (m *listMemo) drop() {
	for _, outs := range m.kept {
		for i := range outs {
			outs[i].Release()
		}
	}
	m.kept, m.at = nil, 0
}

// forward is (w*x + x)*w*w, with the kernel calls of testmul counted.
func replayed(s *autograd.Scope, w *autograd.Param, x *autograd.Value, muls *int) *autograd.Value {
	h := autograd.Apply(s, countedMul{n: muls}, w.Value(), x)
	h = add(s, h, x)
	return autograd.Apply(s, countedMul{n: muls}, h, mul(s, w.Value(), w.Value()))
}

type countedMul struct {
	mulOp
	n *int
}

var countedRule = &autograd.Rule{Name: "countedmul", Reads: mulRule.Reads, Broadcast: true, Dear: true}

func (countedMul) Rule() *autograd.Rule { return countedRule }
func (o countedMul) Forward(f *autograd.Fwd) {
	*o.n++
	o.mulOp.Forward(f)
}

func TestReplayRecallsWhatTheMemoKept(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2, 3}, 3)
	x := r.tensor([]float64{4, 5, 6}, 3)
	defer x.Release()
	var plain, again []float64
	muls := 0
	r.ok(func(s *autograd.Scope) {
		y := sum(s, replayed(s, w, s.Input(x), &muls))
		g := autograd.Grad(s, y, []*autograd.Value{w.Value()})
		plain = append(plain, tensor.Data[float64](g[0].Tensor())...)
	})
	require.Equal(t, 2, muls)

	memo := &listMemo{op: "countedmul"}
	f := func(s *autograd.Scope) error {
		s.OnClose(memo.drop)
		v := s.Input(x)
		muls = 0
		s.NoGrad().WithMemo(memo).Do("first", func(s *autograd.Scope) *autograd.Value { return sum(s, replayed(s, w, v, &muls)) })
		m := s.Modes()
		m.Memo = memo
		stopped := s.Replay("again", m, func(s *autograd.Scope) {
			y := sum(s, replayed(s, w, v, &muls))
			y.Backward(s, autograd.RetainGraph())
			require.Nil(t, w.Grad(), "a replayed pass touches no parameter's gradient")
			g := autograd.Grad(s, y, []*autograd.Value{w.Value()})
			again = append(again[:0], tensor.Data[float64](g[0].Tensor())...)
		})
		require.False(t, stopped)
		return nil
	}
	r.ok(func(s *autograd.Scope) { require.NoError(t, f(s)) })
	require.Equal(t, plain, again) // N1
	require.Equal(t, 2, muls, "the replay multiplies nothing again")
	plantest.Compare(t, r.sess, f) // M3

	for k := int64(1); ; k++ { // M2
		live := r.dev.Stats().Live
		r.dev.FailAt(k)
		err := r.step(func(s *autograd.Scope) { _ = f(s) })
		r.dev.FailAt(0)
		require.Equal(t, live, r.dev.Stats().Live)
		if err == nil {
			break
		}
	}
	memo.fail = true
	r.fails(func(s *autograd.Scope) { _ = f(s) }, "first: countedmul", "memo")
}

// stopSaver ends the replay at its n-th Pack.
type stopSaver struct{ n int }

func (*stopSaver) Replays() {}
func (s *stopSaver) Pack(t *tensor.Tensor, _ memory.Site) (any, error) {
	if s.n--; s.n == 0 {
		return nil, autograd.ErrStop
	}
	return nil, nil
}
func (*stopSaver) Unpack(*memory.Device, any) (tensor.Tensor, error) { panic("nothing was packed") }
func (*stopSaver) Drop(any)                                          { panic("nothing was packed") }

func TestReplayStopsEarly(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2, 3}, 3)
	x := r.tensor([]float64{4, 5, 6}, 3)
	defer x.Release()
	for n := 1; n <= 2; n++ {
		r.ok(func(s *autograd.Scope) {
			v := s.Input(x)
			live := r.dev.Stats().Live
			m := s.Modes()
			m.Saver = &stopSaver{n: n}
			reached := false
			require.True(t, s.Replay("outer", m, func(s *autograd.Scope) {
				in := s.Modes()
				in.Saver = nil
				require.False(t, s.Replay("inner", in, func(c *autograd.Scope) {
					require.Nil(t, c.WithSaver(&hostSaver{}).Modes().Saver, "other savers are off")
				}))
				mul(s, mul(s, w.Value(), v), mul(s, v, w.Value()))
				reached = true
			}))
			require.False(t, reached)
			require.Equal(t, live, r.dev.Stats().Live)
			mul(s, v, v) // the step goes on
		})
	}
}
