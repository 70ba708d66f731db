package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// norms is a model with buffers, one of them twice, and tensors that are not buffers.
type norms struct {
	B1     *nn.BatchNorm
	Again  *nn.BatchNorm
	Shared *tensor.Tensor
	None   *tensor.Tensor
	Cache  *tensor.Tensor `nn:"-"`
	hidden *tensor.Tensor
	Saved  nn.State
	List   []*tensor.Tensor
	B2     *nn.BatchNorm `nn:"last"`
}

func newNorms(r *rig) *norms {
	bn := func() *nn.BatchNorm {
		l, err := nn.NewBatchNorm(r.sess, 3)
		require.NoError(r.t, err)
		return l
	}
	a, b := bn(), bn()
	x := a.RunningVar
	return &norms{B1: a, Again: a, Shared: a.RunningMean, Cache: x, hidden: x, Saved: nn.State{{Name: "x", Tensor: b.RunningVar}}, List: []*tensor.Tensor{x}, B2: b}
}

// Forward takes x [N 3].
func (m *norms) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return m.B2.Forward(s.Named("last"), m.B1.Forward(s.Named("b1"), x))
}

func TestBuffers(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m, other := newNorms(r), newNorms(r)
	require.Equal(t, memory.Other, m.B1.RunningMean.Buffer().Kind())
	var list []string
	for name := range nn.NamedBuffers(m) {
		list = append(list, name)
	}
	require.Equal(t, []string{"b1.running_mean", "b1.running_var", "last.running_mean", "last.running_var"}, list)
	require.Equal(t, []string{"b1.weight", "b1.bias", "last.weight", "last.bias"}, names(m))
	require.EqualValues(t, 12, nn.NumParams(m))
	require.Len(t, nn.Params(m), 4)
	sd := nn.StateDict(m)
	list = nil
	for _, e := range sd {
		list = append(list, e.Name)
	}
	require.Equal(t, []string{"b1.weight", "b1.bias", "b1.running_mean", "b1.running_var",
		"last.weight", "last.bias", "last.running_mean", "last.running_var"}, list)
	require.Same(t, m.B1.RunningMean, sd.Get("b1.running_mean"))

	// a trained model's state makes another give the same
	x := r.uniform(tensor.Float32, 5, 3)
	defer x.Release()
	eval := func(m *norms) (y []float64) {
		r.ok(func(s *autograd.Scope) { y = values(t, m.Forward(s.Eval(), s.Input(x)).Tensor()) })
		return y
	}
	fresh := eval(m)
	r.ok(func(s *autograd.Scope) { m.Forward(s, s.Input(x)) })
	want := eval(m)
	require.NotEqual(t, fresh, want)
	require.Equal(t, fresh, eval(other))
	snap, err := sd.Clone()
	require.NoError(t, err)
	defer snap.Release()
	require.NoError(t, nn.LoadStateDict(other, snap))
	require.Equal(t, want, eval(other))
	require.NoError(t, nn.LoadStateDict(m, sd), "onto itself")
}

func TestLoadingBuffersIsStrict(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m, other := newNorms(r), newNorms(r)
	require.NoError(t, tensor.Fill(other.B1.RunningMean, 5))
	sd := nn.StateDict(other)
	with := func(i int, e nn.Entry) nn.State { return append(append(append(nn.State{}, sd[:i]...), e), sd[i+1:]...) }
	double := floats(r, []float64{1, 2, 3}, 3)
	defer double.Release()
	wide := r.uniform(tensor.Float32, 4)
	defer wide.Release()
	cases := []struct {
		sd   nn.State
		want string
	}{
		{sd[:7], "missing: last.running_var float32[3]"},
		{append(sd[:8:8], nn.Entry{Name: "cache", Tensor: wide}), "unexpected: cache float32[4]"},
		{append(sd[:8:8], nn.Entry{Name: "list.0", Tensor: wide}), "unexpected: list.0 float32[4]"},
		{with(2, nn.Entry{Name: "b1.running_mean", Tensor: wide}), "b1.running_mean: got float32[4]: want float32[3]"},
		{with(2, nn.Entry{Name: "b1.running_mean", Tensor: double}), "b1.running_mean: got float64[3]: want float32[3]"},
		{with(2, nn.Entry{Name: "b1.running_mean"}), "b1.running_mean: got no tensor: want float32[3]"},
		{with(2, nn.Entry{Name: "b1.running_mean", Tensor: m.B1.RunningVar}), "got the storage of the model's own b1.running_var"},
		{append(sd[:8:8], nn.Entry{Name: "shared", Tensor: m.B2.RunningVar}), "shared: other values than b1.running_mean"},
	}
	for _, c := range cases {
		require.ErrorContains(t, nn.LoadStateDict(m, c.sd), c.want)
		require.Equal(t, []float64{0, 0, 0}, values(t, m.B1.RunningMean))
	}
	require.NoError(t, nn.LoadStateDict(m, append(with(2, nn.Entry{Name: "shared", Tensor: sd[2].Tensor}), nn.Entry{Name: "again.running_var", Tensor: sd[3].Tensor})))
	require.Equal(t, []float64{5, 5, 5}, values(t, m.B1.RunningMean))

	require.NoError(t, nn.LoadStateDict(struct{ A *tensor.Tensor }{wide}, nn.State{{Name: "a", Tensor: wide}}), "buffers only")
	gone := r.uniform(tensor.Float32, 4)
	gone.Release()
	require.ErrorContains(t, nn.LoadStateDict(struct{ A *tensor.Tensor }{gone}, nn.State{{Name: "a", Tensor: wide}}), "a: the buffer was released, or its session closed")
	for range nn.NamedBuffers(m) {
		break
	}
}
