package main

import (
	"errors"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// The model of all worked numbers: a GPT whose sizes are few and round. B sequences of T tokens, C channels, H heads, L
// blocks, V words.
const (
	B = 16
	T = 256
	C = 256
	H = 4
	L = 9
	V = 8192
)

// setup is a training of the model.
type setup struct {
	sequences int // an update; 0: B
	micro     int // micro-batches an update; 0: 1
	dtype     tensor.DType
	cast      autograd.CastPolicy
	scaled    bool // the loss, by a GradScaler
	chain     nn.Chain
	budget    int64 // bytes for the blocks, to which a chain is fitted; 0: none
	plainHead bool
	buffers   bool                                                               // nothing is written over
	place     bool                                                               // find addresses for a plan's lifetimes
	optimizer func([]*autograd.Param, optim.StateStore) (optim.Optimizer, error) // nil: AdamW

	activations, state, params bool // on disk
}

// split is bytes by kind.
type split = [memory.NumKinds]int64

// trace is what a dry run of two updates showed; all of it is of the second, which finds what the first has left.
type trace struct {
	params  int64 // numbers
	rest    split // alive between updates
	forward split // alive between forward and backward of the last micro-batch
	most    split // the most of each kind, whenever that was
	peak    split // at the peak
	arena   int64
	placed  int64 // the arena by a plan's addresses
	inPlace []autograd.InPlace
	curve   []split // alive after each event
}

// rig is a setup at work.
type rig struct {
	setup
	dev   *memory.Device
	sess  *autograd.Session
	store *offload.Store
	model *nn.GPT
	win   *train.Window
	x, y  *tensor.Tensor // [B/micro T]
	trace *trace
}

// run runs a setup dry.
func (c setup) run() (tr *trace, err error) {
	c.micro = max(c.micro, 1)
	if c.sequences == 0 {
		c.sequences = B
	}
	r := &rig{setup: c, trace: &trace{}}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.build(); err != nil {
		return nil, err
	}
	plan, err := r.sess.Plan(r.update, autograd.PlanConfig{Events: true, Place: c.place})
	if err != nil {
		return nil, err
	}
	r.read(plan)
	return r.trace, nil
}

func (r *rig) build() (err error) {
	if r.dev, err = memory.NewDevice(memory.Config{Virtual: true}); err != nil {
		return err
	}
	if r.sess, err = autograd.New(autograd.Config{Device: r.dev, NoOverwrite: r.buffers}); err != nil {
		return err
	}
	var home autograd.Home
	var state optim.StateStore
	if r.activations || r.state || r.params {
		if r.store, err = offload.Open(offload.Config{Device: r.dev, Tier: offload.Disk}); err != nil {
			return err
		}
	}
	if r.params {
		home = r.store
	}
	if r.state {
		state = r.store
	}
	err = r.sess.BuildIn(home, func() (err error) {
		r.model, err = nn.NewGPT(r.sess, nn.GPTConfig{Vocab: V, Context: T, Dim: C, Heads: H, Layers: L, DType: r.dtype, PlainHead: r.plainHead})
		return err
	})
	if err != nil {
		return err
	}
	if err := r.fit(); err != nil {
		return err
	}
	if r.optimizer == nil {
		r.optimizer = adamW
	}
	opt, err := r.optimizer(nn.Params(r.model), state)
	if err != nil {
		return err
	}
	window := train.WindowConfig{Micro: r.micro}
	if r.scaled {
		if window.Scaler, err = amp.NewGradScaler(amp.GradScalerConfig{}); err != nil {
			return err
		}
	}
	if r.win, err = train.NewWindow(opt, window); err != nil {
		return err
	}
	return r.batch()
}

// fit sets the model's chain.
func (r *rig) fit() error {
	r.model.Chain = r.chain
	if r.budget == 0 {
		return nil
	}
	f, err := checkpoint.Fit(r.sess, checkpoint.LineOf(r.model.Blocks, tensor.Of(r.dtype, r.sequences/r.micro, T, C)), r.budget)
	if err == nil {
		r.model.Chain = checkpoint.Chain(f.For)
	}
	return err
}

func adamW(params []*autograd.Param, store optim.StateStore) (optim.Optimizer, error) {
	return optim.NewAdamW(params, optim.AdamWConfig{LR: 1e-3, Store: store, Half: optim.RoundStochastic})
}

func (r *rig) batch() (err error) {
	r.trace.params = nn.NumParams(r.model)
	for _, t := range []**tensor.Tensor{&r.x, &r.y} {
		if *t, err = tensor.New(r.dev, memory.Input, memory.Site{Op: "batch"}, tensor.Of(tensor.Int64, r.sequences/r.micro, T)); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) update(s *autograd.Scope) error {
	r.trace.rest = r.dev.Stats().LiveByKind
	for range r.micro {
		f := s.WithAutocast(r.cast)
		if r.activations {
			f = f.WithSaver(r.store)
		}
		loss := r.model.Loss(f, s.Input(r.x), s.Input(r.y))
		r.trace.forward = r.dev.Stats().LiveByKind
		if _, err := r.win.Backward(s, loss); err != nil {
			return err
		}
		s.Free(loss)
	}
	return nil
}

// read makes the trace of the plan's last step.
func (r *rig) read(p *autograd.Plan) {
	st, tr := p.Steps[len(p.Steps)-1], r.trace
	tr.peak, tr.arena, tr.placed, tr.inPlace = st.ByKind, st.Arena, st.Placed, p.InPlace
	now, kind := tr.rest, map[uint64]memory.Kind{}
	tr.most = now
	for _, e := range st.Events {
		switch e.Act {
		case memory.Alloc:
			now[e.Kind] += e.Bytes
			kind[e.ID] = e.Kind
		case memory.Free:
			now[e.Kind] -= e.Bytes
		case memory.SetKind:
			now[kind[e.ID]] -= e.Bytes
			now[e.Kind] += e.Bytes
			kind[e.ID] = e.Kind
		default:
			continue
		}
		for k := range now {
			tr.most[k] = max(tr.most[k], now[k])
		}
		tr.curve = append(tr.curve, now)
	}
}

func (r *rig) close() error {
	var errs []error
	for _, t := range []*tensor.Tensor{r.x, r.y} {
		if t != nil {
			t.Release()
		}
	}
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	if r.sess != nil {
		errs = append(errs, r.sess.Close())
	}
	if r.dev != nil {
		errs = append(errs, r.dev.Close())
	}
	return errors.Join(errs...)
}

// sum is all kinds together.
func sum(s split) (n int64) {
	for _, b := range s {
		n += b
	}
	return n
}

// fits is the arena, by a plan's addresses if there are any.
func (tr *trace) fits() int64 {
	if tr.placed > 0 {
		return tr.placed
	}
	return tr.arena
}
