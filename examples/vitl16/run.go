package main

import (
	"context"
	"time"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// settings are what all rungs have in common; the child process gets them as JSON.
type settings struct {
	Rung               string
	Image, Dim, Layers int
	Seed               uint64
	Threads            int
	Dir                string
}

const (
	patch   = 16
	classes = 10          // the article's, of CIFAR-10
	head    = 64          // channels of one
	updates = 45_000 / 16 // an epoch of the article's
)

// article are the settings of the published figures.
var article = settings{Image: 224, Dim: 1024, Layers: 24}

// published tells whether c is the article's model.
func (c settings) published() bool {
	return c.Image == article.Image && c.Dim == article.Dim && c.Layers == article.Layers
}

// trainer is a rung at work.
type trainer struct {
	settings
	rung   rung
	dev    *memory.Device
	sess   *autograd.Session
	store  *offload.Store // nil: nothing is away
	model  *nn.ViT
	window *train.Window
	micro  int            // micro-batches of an update
	x, y   *tensor.Tensor // [micro 3 H W], [micro]
	ending row.Cleanup
}

// predict is the rung's update, and its parameters, by a dry run on a device without bytes.
func predict(c settings, r rung) (f figures, err error) {
	t := &trainer{settings: c, rung: r, micro: r.windows()}
	defer t.ending.Run(&err)
	if err := t.build(memory.Config{Virtual: true}); err != nil {
		return f, err
	}
	plan, err := t.sess.Plan(t.update, autograd.PlanConfig{Steps: 1}) // gradients end with the update: the second is like the first
	if err != nil {
		return f, err
	}
	f.Name, f.Note, f.Batch, f.Micro, f.Parameters = r.name, r.note, r.batch, r.micro, nn.NumParams(t.model)
	if c.published() && r.published > 0 {
		f.Published = &r.published
	}
	f.PredictPlan(plan)
	f.planned = *f.Arena
	return f, f.Check()
}

// measured is what a real step gives.
type measured struct {
	Stats  memory.Stats
	RSS    *int64
	Image  row.Number // milliseconds
	Loss   row.Number
	Micros int // micro-batches that ran
}

// run takes one real step of at most two micro-batches: the second finds the gradients of the first, as all later ones do,
// so that the peak is that of the whole update. The pictures are noise, the same in every rung.
func run(ctx context.Context, c settings, p *row.Progress) (m measured, err error) {
	r, err := row.Find("vitl16: rung", c.Rung, all())
	if err != nil {
		return m, err
	}
	t := &trainer{settings: c, rung: r, micro: min(2, r.windows())}
	defer t.ending.Run(&err)
	meter := row.StartResident()
	if err := t.build(memory.Config{}); err != nil {
		return m, err
	}
	t.dev.ResetPeak()
	p.Start(r.name, 1)
	start := time.Now()
	if err := t.sess.Step(ctx, t.update); err != nil {
		return m, err
	}
	took := time.Since(start)
	p.Step(1, t.window.Loss())
	m = measured{Stats: t.dev.Stats(), RSS: meter.Peak(), Loss: row.Num(t.window.Loss()), Micros: t.micro}
	m.Image = row.Num(float64(took.Milliseconds()) / float64(t.micro*r.micro))
	return m, nil
}

// build makes all that lives for the whole training.
func (t *trainer) build(device memory.Config) (err error) {
	if t.dev, t.sess, err = row.Open(device, autograd.Config{Seed: t.Seed, Workers: t.Threads}, &t.ending); err != nil {
		return err
	}
	var home autograd.Home // of parameters; nil: the device
	if t.rung.away.any() {
		if t.store, err = offload.Open(offload.Config{Device: t.dev, Tier: offload.Disk, Dir: t.Dir}); err != nil {
			return err
		}
		t.ending.Add(t.store.Close)
		if t.rung.away.params {
			home = t.store
		}
	}
	if err := t.sess.BuildIn(home, t.makeModel); err != nil {
		return err
	}
	opt, schedule, err := t.optimizer()
	if err != nil {
		return err
	}
	window := train.WindowConfig{Micro: t.micro, Schedule: schedule}
	if t.rung.cast.Low == tensor.Float16 {
		if window.Scaler, err = amp.NewGradScaler(amp.GradScalerConfig{}); err != nil {
			return err
		}
	}
	if t.window, err = train.NewWindow(opt, window); err != nil {
		return err
	}
	return t.makeBatch()
}

func (t *trainer) makeModel() (err error) {
	t.model, err = nn.NewViT(t.sess, nn.ViTConfig{Image: t.Image, Patch: patch, Dim: t.Dim, Heads: t.Dim / head, Layers: t.Layers, Classes: classes, DType: t.rung.dtype})
	if err == nil {
		t.model.Chain = t.rung.chain
	}
	return err
}

// optimizer has the article's rates. Weights of a half type are rounded at random, so that small updates are not lost.
func (t *trainer) optimizer() (optim.Optimizer, optim.Schedule, error) {
	if t.rung.sgd {
		opt, err := optim.NewSGD(nn.Params(t.model), optim.SGDConfig{LR: 0.01, Half: optim.RoundStochastic})
		if err != nil {
			return nil, nil, err
		}
		cosine, err := optim.NewCosineAnnealing(opt, optim.CosineConfig{TMax: updates})
		return opt, cosine, err
	}
	adam := optim.AdamConfig{LR: 5e-5, Half: optim.RoundStochastic}
	if t.rung.away.state {
		adam.Store = t.store
	}
	opt, err := optim.NewAdam(nn.Params(t.model), adam)
	return opt, nil, err
}

// makeBatch makes one micro-batch, which serves for all.
func (t *trainer) makeBatch() (err error) {
	n := t.rung.micro
	if t.x, err = row.Input(t.dev, tensor.Of(t.rung.dtype, n, 3, t.Image, t.Image), &t.ending); err != nil {
		return err
	}
	if err = tensor.FillUniform(t.x, &tensor.Stream{Seed: t.Seed}, 0, 1); err != nil {
		return err
	}
	if t.y, err = row.Input(t.dev, tensor.Of(tensor.Int64, n), &t.ending); err != nil {
		return err
	}
	for i := range tensor.Data[int64](t.y) {
		tensor.Data[int64](t.y)[i] = int64(i % classes)
	}
	return nil
}

// update is one training step: the same code runs dry and for real.
func (t *trainer) update(s *autograd.Scope) error {
	for range t.micro {
		f := s.WithAutocast(t.rung.cast)
		if t.rung.away.activations {
			f = f.WithSaver(t.store)
		}
		loss := t.model.Loss(f, s.Input(t.x), s.Input(t.y))
		if _, err := t.window.Backward(s, loss); err != nil {
			return err
		}
		s.Free(loss)
	}
	return nil
}
