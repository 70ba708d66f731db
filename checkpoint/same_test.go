package checkpoint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// variant is a way to run a chain.
type variant struct {
	name     string
	schedule func(n int) checkpoint.Schedule
	opts     []checkpoint.Option
}

// hostSaver copies to a second device: the test double of offload.
type hostSaver struct{ host *memory.Device }

func (h *hostSaver) Pack(t *tensor.Tensor, at memory.Site) (any, error) {
	c, err := tensor.New(h.host, memory.Activation, at, t.Spec())
	if err == nil && t.Buffer().Bytes() != nil && !t.Buffer().Virtual() {
		err = tensor.Copy(c, t)
	}
	return c, err
}

func (h *hostSaver) Unpack(d *memory.Device, handle any) (tensor.Tensor, error) {
	c := handle.(*tensor.Tensor)
	t, err := tensor.Make(d, memory.Activation, memory.Site{Op: "unpack"}, c.Spec())
	if err == nil && t.Buffer().Bytes() != nil {
		err = tensor.Copy(&t, c)
	}
	return t, err
}

func (h *hostSaver) Drop(handle any) { handle.(*tensor.Tensor).Release() }

func variants(t testing.TB, host autograd.Saver) []variant {
	t.Helper()
	second, err := checkpoint.EveryKth(2)
	require.NoError(t, err)
	scopes, err := checkpoint.Scopes("attn", "ml*")
	require.NoError(t, err)
	with := func(p checkpoint.Policy) []checkpoint.Option { return []checkpoint.Option{checkpoint.With(p)} }
	offload := func(p checkpoint.Policy) []checkpoint.Option {
		return append(with(p), checkpoint.OffloadTo(host), checkpoint.WithCheck(checkpoint.CheckValues))
	}
	half := func(q checkpoint.Tensor) checkpoint.Action {
		if q.Reader.Op == "linear" {
			return checkpoint.Offload
		}
		return checkpoint.Recompute
	}
	return []variant{
		{"all", checkpoint.All, nil},
		{"per-block", checkpoint.PerBlock, nil},
		{"no-early-stop", checkpoint.PerBlock, []checkpoint.Option{checkpoint.NoEarlyStop()}},
		{"sqrt", checkpoint.Sqrt, nil},
		{"segments", checkpoint.Segments(3), nil},
		{"recursive", checkpoint.Recursive, nil},
		{"deep", deep, nil},
		{"mixed", mixed, nil},
		{"everything", checkpoint.PerBlock, with(checkpoint.Everything)},
		{"nothing", checkpoint.PerBlock, with(checkpoint.Nothing)},
		{"dear-only", checkpoint.PerBlock, with(checkpoint.DearOnly)},
		{"dear-only-recursive", checkpoint.Recursive, with(checkpoint.DearOnly)},
		{"dear-offloaded", checkpoint.PerBlock, offload(checkpoint.DearTo)},
		{"some-offloaded", checkpoint.Sqrt, offload(half)},
		{"every-2nd", checkpoint.PerBlock, with(second)},
		{"scopes", checkpoint.PerBlock, with(scopes)},
	}
}

// deep nests as deep as there are blocks: ((((0) 1) 2) 3).
func deep(n int) checkpoint.Schedule {
	sc := checkpoint.Schedule{{Blocks: 1}}
	for range n - 1 {
		sc = checkpoint.Schedule{{Inner: sc}, {Blocks: 1}}
	}
	return checkpoint.Schedule{{Inner: sc}}
}

// mixed has all that the fitted schedules are made of, for 3 to 5 blocks: ([0] 1) [2] 3 4.
func mixed(n int) checkpoint.Schedule {
	one := checkpoint.Schedule{{Blocks: 1}}
	dear := checkpoint.Step{Inner: one, Policy: checkpoint.DearOnly}
	return checkpoint.Schedule{{Inner: checkpoint.Schedule{dear, {Blocks: 1}}}, dear, {Blocks: n - 3}}
}

// N1: no schedule and no policy changes a bit, and the dry run is the real run (M3).
func TestSameBits(t *testing.T) {
	steps := 50
	if testing.Short() {
		steps = 3
	}
	for _, model := range []func(*rig, int) *task{gptTask, llamaTask, vitTask, convChain} {
		name := ""
		run := func(v *variant) (losses []float64, params [][]float32) {
			r := newRig(t)
			defer r.close()
			k := model(r, 5)
			defer k.close()
			name = k.name
			before := names(k.model)
			if v != nil {
				k.chain(checkpoint.Chain(v.schedule, v.opts...))
			}
			require.Equal(t, before, names(k.model))
			return k.train(r, steps)
		}
		losses, params := run(nil)
		host, err := memory.NewDevice(memory.Config{Name: "host", Reserve: 1 << 30})
		require.NoError(t, err)
		for _, v := range variants(t, &hostSaver{host}) {
			t.Run(name+"/"+v.name, func(t *testing.T) {
				gotLosses, gotParams := run(&v)
				require.Equal(t, losses, gotLosses)
				require.Equal(t, params, gotParams)
				require.Zero(t, host.Stats().Live)
			})
		}
		require.NoError(t, host.Close())
	}
}

func names(m any) (list []string) {
	for name := range nn.NamedParams(m) {
		list = append(list, name)
	}
	return list
}

func TestDryRunIsRealRun(t *testing.T) {
	host, err := memory.NewDevice(memory.Config{Name: "host", Reserve: 1 << 30})
	require.NoError(t, err)
	for _, v := range variants(t, &hostSaver{host}) {
		t.Run(v.name, func(t *testing.T) {
			r := newRig(t)
			defer r.close()
			k := gptTask(r, 5)
			defer k.close()
			k.chain(checkpoint.Chain(v.schedule, v.opts...))
			plan := plantest.Compare(t, r.sess, func(s *autograd.Scope) error {
				k.loss(s).Backward(s)
				return nil
			})
			require.Empty(t, plan.Slack)
			require.Zero(t, host.Stats().Live)
		})
	}
	require.NoError(t, host.Close())
}
