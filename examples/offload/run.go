package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

const none = "none"

// tier is what a row sends away, and where to.
type tier struct {
	name                    string
	to                      offload.Tier // Keep: nowhere
	activations, state, all bool
}

// rows are all of them.
var tierRows = []tier{
	{name: none},
	{name: "activations-host", to: offload.Host, activations: true},
	{name: "activations-disk", to: offload.Disk, activations: true},
	{name: "optimizer-disk", to: offload.Disk, state: true},
	{name: "parameters-disk", to: offload.Disk},
	{name: "all-disk", to: offload.Disk, activations: true, state: true, all: true},
}

func (t tier) String() string { return t.name }

// parameters tells whether parameters and gradients leave.
func (t tier) parameters() bool { return t.to != offload.Keep && !t.activations && !t.state || t.all }

// settings are what a row is made of; the child process gets them as JSON.
type settings struct {
	Row                         string
	Batch, Context, Layers, Dim int
	Steps                       int
	Limit                       int64 // bytes of the device, for all rows but none
	Block                       int   // KiB of a piece of the ring
	Seed                        uint64
	Threads                     int
	Dir                         string
}

const (
	vocabulary = 65
	head       = 64 // channels of one
)

// trainer is a row at work.
type trainer struct {
	settings
	tier  tier
	dev   *memory.Device
	sess  *autograd.Session
	store *offload.Store // nil in row none
	model *nn.GPT
	opt   *optim.AdamW
	x, y  *tensor.Tensor // [Batch Context]
	loss  float64

	phases    []time.Time // when forward, backward, update began, and the end
	transfers []offload.Transfer
	ending    row.Cleanup
}

// run predicts the peak, trains and measures.
func run(ctx context.Context, c settings, p *row.Progress) (m measured, err error) {
	t := &trainer{settings: c}
	defer t.ending.Run(&err)
	meter := row.StartResident()
	device := memory.Config{Limit: c.Limit}
	if c.Row == none {
		device.Limit = 0
	}
	if err := t.build(device); err != nil {
		return m, err
	}
	if err := m.PredictStep(t.sess, t.update); err != nil {
		return m, err
	}
	m.Name, m.Steps = c.Row, c.Steps
	times, stalls, err := t.train(ctx, p)
	if err != nil {
		return m, err
	}
	m.Measure(t.dev.Stats())
	m.RSS, m.StepMS, m.Loss, m.Stall = meter.Peak(), times.Median(), row.Num(t.loss), row.Num(0)
	if t.store != nil {
		st := t.store.Stats()
		m.Host, m.Disk, m.Stall = st.HostPeak, st.DiskPeak, stalls.Median()
	}
	m.Lanes = t.lanes()
	return m, nil
}

// attempt trains a step under the limit in this process.
func attempt(ctx context.Context, c settings) (err error) {
	t := &trainer{settings: c}
	defer t.ending.Run(&err)
	if err := t.build(memory.Config{Limit: c.Limit}); err != nil {
		return err
	}
	return t.sess.Step(ctx, t.update)
}

// predict is the arena that a row needs, by a dry run on a device without bytes.
func (c settings) predict(name string) (arena int64, err error) {
	c.Row = name
	t := &trainer{settings: c}
	defer t.ending.Run(&err)
	if err := t.build(memory.Config{Virtual: true}); err != nil {
		return 0, err
	}
	plan, err := t.sess.Plan(t.update, autograd.PlanConfig{})
	if err != nil {
		return 0, err
	}
	return max(t.dev.Stats().ArenaPeak, plan.Arena()), nil
}

// build makes all that lives for the whole training.
func (t *trainer) build(device memory.Config) (err error) {
	if t.tier, err = row.Find("offload: row", t.Row, tierRows); err != nil {
		return err
	}
	if t.dev, t.sess, err = row.Open(device, autograd.Config{Seed: t.Seed, Workers: t.Threads}, &t.ending); err != nil {
		return err
	}
	if t.tier.to != offload.Keep {
		block := int64(t.Block) << 10
		t.store, err = offload.Open(offload.Config{Device: t.dev, Tier: t.tier.to, Dir: t.Dir, Trace: t.note, BlockBytes: block, MinBytes: block / 16})
		if err != nil {
			return err
		}
		t.ending.Add(t.store.Close)
	}
	if err := t.sess.BuildIn(t.home(), t.makeModel); err != nil {
		return err
	}
	adamw := optim.AdamWConfig{LR: 3e-4, WeightDecay: 0.1}
	if t.tier.state {
		adamw.Store = t.store
	}
	if t.opt, err = optim.NewAdamW(nn.Params(t.model), adamw); err != nil {
		return err
	}
	return t.makeBatch()
}

// home is where parameters live; nil: on the device.
func (t *trainer) home() autograd.Home {
	if t.tier.parameters() {
		return t.store
	}
	return nil
}

func (t *trainer) makeModel() (err error) {
	t.model, err = nn.NewGPT(t.sess, nn.GPTConfig{Vocab: vocabulary, Context: t.Context, Dim: t.Dim, Heads: t.Dim / head, Layers: t.Layers})
	return err
}

// makeBatch draws tokens at random, the same in every row.
func (t *trainer) makeBatch() (err error) {
	draw := rand.New(rand.NewPCG(t.Seed, 0))
	for _, b := range []**tensor.Tensor{&t.x, &t.y} {
		if *b, err = row.Input(t.dev, tensor.Of(tensor.Int64, t.Batch, t.Context), &t.ending); err != nil {
			return err
		}
		tokens := tensor.Data[int64](*b)
		for i := range tokens {
			tokens[i] = draw.Int64N(vocabulary)
		}
	}
	return nil
}

// update is one training step: the same code runs dry and for real.
func (t *trainer) update(s *autograd.Scope) error {
	t.phases = append(t.phases[:0], time.Now())
	f := s
	if t.tier.activations {
		f = s.WithSaver(t.store)
	}
	loss := t.model.Loss(f, s.Input(t.x), s.Input(t.y))
	t.loss = loss.Item()
	t.phases = append(t.phases, time.Now())
	loss.Backward(s)
	s.Free(loss)
	t.phases = append(t.phases, time.Now())
	if err := t.opt.Step(s); err != nil {
		return err
	}
	t.opt.ZeroGrad(s)
	t.phases = append(t.phases, time.Now())
	return nil
}

// train runs all steps and gives what each took, and how long it waited for transfers.
func (t *trainer) train(ctx context.Context, p *row.Progress) (times, stalls row.Times, err error) {
	p.Start(t.Row, t.Steps)
	for i := range t.Steps {
		var before time.Duration
		if t.store != nil {
			before = t.store.Stats().Stall
		}
		t.transfers = t.transfers[:0]
		start := time.Now()
		if err := t.sess.Step(ctx, t.update); err != nil {
			return nil, nil, err
		}
		times.Since(start)
		if t.store != nil {
			stalls = append(stalls, t.store.Stats().Stall-before)
		}
		p.Step(i+1, t.loss)
	}
	return times, stalls, nil
}

// note keeps the transfers of a step.
func (t *trainer) note(x offload.Transfer) { t.transfers = append(t.transfers, x) }

// kindOf gives what a transfer moves the colour that its bytes have in the chart.
var kindOf = map[offload.Role]memory.Kind{
	offload.Activation: memory.Activation, offload.Param: memory.Param, offload.Grad: memory.Grad, offload.State: memory.OptState,
}

// lanes are the last step as a picture.
func (t *trainer) lanes() []row.Lane {
	if t.store == nil || len(t.phases) < 4 {
		return nil
	}
	zero := t.phases[0]
	ms := func(at time.Time) float64 { return float64(at.Sub(zero).Microseconds()) / 1e3 }
	step := row.Lane{Name: "step"}
	for i, name := range []string{"forward", "backward", "update"} {
		step.Spans = append(step.Spans, row.Span{From: ms(t.phases[i]), To: ms(t.phases[i+1]), Kind: memory.Other, Text: name})
	}
	waits, reads, writes := row.Lane{Name: "waits"}, row.Lane{Name: "reads"}, row.Lane{Name: "writes"}
	of := map[offload.Move]*row.Lane{offload.Wait: &waits, offload.Read: &reads, offload.Write: &writes}
	for _, x := range t.transfers {
		lane := of[x.Move]
		lane.Spans = append(lane.Spans, row.Span{From: ms(x.Start), To: ms(x.End), Kind: kindOf[x.Role]})
	}
	return []row.Lane{step, waits, reads, writes}
}
