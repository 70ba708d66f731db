package optim_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// released is a small network with AdamW, its gradients released or not.
type released struct {
	dev  *memory.Device
	sess *autograd.Session
	net  nn.Sequential
	opt  *optim.AdamW
	x, y *tensor.Tensor
}

func newReleased(t *testing.T, release bool) *released {
	t.Helper()
	r := &released{}
	var err error
	r.dev, err = memory.NewDevice(memory.Config{Reserve: 1 << 26})
	require.NoError(t, err)
	r.sess, err = autograd.New(autograd.Config{Device: r.dev, Seed: 3})
	require.NoError(t, err)
	for range 4 {
		fc, err := nn.NewLinear(r.sess, 8, 8)
		require.NoError(t, err)
		r.net = append(r.net, fc, nn.GELU{})
	}
	r.opt, err = optim.NewAdamW(nn.Params(r.net), optim.AdamWConfig{LR: 0.01, WeightDecay: 0.1})
	require.NoError(t, err)
	if release {
		require.NoError(t, r.opt.ReleaseGradients())
		require.NoError(t, r.opt.ReleaseGradients(), "twice is fine")
	}
	r.x, err = tensor.From(r.dev, memory.Input, memory.Site{}, make([]float32, 32), 4, 8)
	require.NoError(t, err)
	require.NoError(t, tensor.FillRange(r.x, -1, 0.07))
	r.y, err = tensor.From(r.dev, memory.Input, memory.Site{}, []int64{1, 3, 5, 7}, 4)
	require.NoError(t, err)
	return r
}

func (r *released) close(t *testing.T) {
	t.Helper()
	r.x.Release()
	r.y.Release()
	require.NoError(t, r.sess.Close())
	require.NoError(t, r.dev.Close())
}

func (r *released) step(s *autograd.Scope) error {
	ops.CrossEntropy(s, r.net.Forward(s, s.Input(r.x)), s.Input(r.y)).Backward(s)
	defer r.opt.ZeroGrad(s)
	return r.opt.Step(s)
}

func TestReleaseGradients(t *testing.T) {
	plain, r := newReleased(t, false), newReleased(t, true)
	defer plain.close(t)
	defer r.close(t)
	var grads [2]int64
	for i, x := range []*released{plain, r} {
		plan, err := x.sess.Plan(x.step, autograd.PlanConfig{Events: true})
		require.NoError(t, err)
		for k := range 5 {
			var events []memory.Event
			x.dev.ResetPeak()
			old := x.dev.SetTrace(func(e memory.Event) { events = append(events, e) })
			require.NoError(t, x.sess.Step(context.Background(), x.step))
			x.dev.SetTrace(old)
			if k < 2 { // dry run = real run
				require.Equal(t, plan.Steps[k].Events, events)
			}
		}
		grads[i] = x.dev.Stats().PeakByKind[memory.Grad]
		require.Zero(t, x.dev.Stats().LiveByKind[memory.Grad])
	}
	for i, p := range nn.Params(plain.net) {
		require.True(t, tensor.Equal(p.Tensor(), nn.Params(r.net)[i].Tensor()), p.Name())
	}
	require.Less(t, r.dev.Stats().Peak, plain.dev.Stats().Peak)
	require.LessOrEqual(t, grads[1], int64(8*8*4+8*4), "of one layer")
}

func TestReleaseExcludes(t *testing.T) {
	r := newReleased(t, true)
	defer r.close(t)
	_, err := train.NewWindow(r.opt, train.WindowConfig{Micro: 2})
	require.ErrorContains(t, err, "0.weight is released inside backward")
	_, err = train.NewWindow(r.opt, train.WindowConfig{Micro: 1})
	require.NoError(t, err)
	require.NoError(t, r.sess.Step(context.Background(), func(s *autograd.Scope) error {
		_, err := optim.ClipGradNorm(s, r.opt.Params(), 1)
		require.ErrorContains(t, err, "released inside backward")
		return nil
	}))
	other, err := optim.NewSGD(r.opt.Params(), optim.SGDConfig{LR: 1})
	require.NoError(t, err)
	require.ErrorContains(t, other.ReleaseGradients(), "another optimizer releases the gradient of 0.weight")
}

// A failed step with released gradients leaks nothing, and says in its docs that some parameters may have moved.
func TestReleaseFailures(t *testing.T) {
	r := newReleased(t, true)
	defer r.close(t)
	live := r.dev.Stats().Live
	for k := int64(1); ; k++ {
		r.dev.FailAt(k)
		err := r.sess.Step(context.Background(), r.step)
		r.dev.FailAt(0)
		require.Equal(t, live, r.dev.Stats().Live)
		if err == nil {
			break
		}
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
	}
}
