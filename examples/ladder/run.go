package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/examples/internal/mnist"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// settings are what all rungs of a run have in common; the child process gets them as JSON.
type settings struct {
	Rung    string
	Model   string
	Data    string // folder of IDX files, or text; "": what every machine with Go has
	Batch   int    // examples an update; 0: the model's
	Hidden  int    // width of the MLP's hidden layers
	Steps   int    // updates; 0: Epochs decides
	Epochs  int    // 0 with 0 Steps: the model's number of steps
	Seed    uint64
	Threads int

	Accuracy bool   // is taken at the end, if there are test data
	Record   string // file for a recording of one more update, by a dry run; "": none
}

// job is one rung at work.
type job struct {
	settings
	rung rung
	*problem

	dev     *memory.Device
	sess    *autograd.Session
	model   any
	forward nn.Forward
	cosine  *optim.CosineAnnealing
	window  *train.Window
	loader  *data.Loader   // of micro-batches
	store   *offload.Store // nil: nothing is away
	epoch   *data.Epoch
	loss    float64   // of the update
	losses  []float64 // of all
	ending  row.Cleanup
}

// run builds the model, predicts the peak, trains, and measures.
func run(ctx context.Context, c settings, p *row.Progress) (r row.Row, err error) {
	j := &job{settings: c}
	defer func() { err = errors.Join(err, j.close()) }()
	if err := j.load(ctx); err != nil {
		return r, err
	}
	meter := row.StartResident()
	if err := j.start(); err != nil {
		return r, err
	}
	r = row.Row{Name: j.rung.name, Steps: j.Steps}

	if j.epoch, err = j.loader.Open(ctx, 0); err != nil {
		return r, err
	}
	if err := r.PredictStep(j.sess, j.update); err != nil {
		return r, err
	}
	if r.StepMS, err = j.train(ctx, p); err != nil {
		return r, err
	}
	r.Measure(j.dev.Stats())
	r.RSS, r.Loss = meter.Peak(), row.Num(j.end())
	if j.Accuracy && j.test != nil {
		accuracy, err := j.accuracy(ctx)
		if err != nil {
			return r, err
		}
		r.Accuracy = row.Num(accuracy)
	}
	return r, j.record(ctx)
}

// load reads the data and fixes the number of updates.
func (j *job) load(ctx context.Context) (err error) {
	if j.rung, err = findRung(j.Model, j.Rung); err != nil {
		return err
	}
	if j.problem, err = open(ctx, j.settings); err != nil {
		return err
	}
	if j.Batch == 0 {
		j.Batch = j.batch
	}
	if j.Batch > j.problem.train.Len() {
		return fmt.Errorf("ladder: -batch %d: want at most %d, the examples of the training set", j.Batch, j.problem.train.Len())
	}
	if j.Steps == 0 {
		j.Steps = cmp.Or(j.Epochs*j.updates(), j.steps)
	}
	return nil
}

// start makes everything that lives for the whole training, counted on the device.
func (j *job) start() (err error) {
	if j.dev, j.sess, err = row.Open(memory.Config{}, autograd.Config{Seed: j.Seed, Workers: j.Threads, NoOverwrite: j.rung.buffers}, &j.ending); err != nil {
		return err
	}
	if err := j.openStore(); err != nil {
		return err
	}
	if j.model, j.forward, err = j.buildAway(); err != nil {
		return err
	}
	j.rung.set(j.model)
	opt, cosine, err := j.rung.optimizer(nn.Params(j.model), j.problem, j.Steps, j.stateStore())
	if err != nil {
		return err
	}
	j.cosine = cosine
	cfg := train.WindowConfig{Micro: j.rung.micro}
	if j.rung.cast == amp.Float16 {
		if cfg.Scaler, err = amp.NewGradScaler(amp.GradScalerConfig{}); err != nil {
			return err
		}
	}
	if j.window, err = train.NewWindow(opt, cfg); err != nil {
		return err
	}
	whole := func(epoch int) []int32 { // updates only: all rungs see the same examples, however small their micro-batches
		return data.Shuffle(j.problem.train.Len(), j.Seed, uint64(epoch))[:j.updates()*j.Batch]
	}
	j.loader, err = data.NewLoader(j.dev, j.problem.train, data.LoaderConfig{Batch: j.Batch / j.rung.micro, Sampler: whole})
	return err
}

// updates is how many there are in an epoch.
func (j *job) updates() int { return j.problem.train.Len() / j.Batch }

// close gives all back; what is still alive then is a leak, and an error.
func (j *job) close() (err error) {
	j.ending.Run(&err)
	return err
}

// update is one training step: the same code runs dry and for real.
func (j *job) update(s *autograd.Scope) error {
	j.loss = 0
	for range j.rung.micro {
		batch, err := j.epoch.Next()
		if err != nil {
			return err
		}
		l := j.lossOf(j.saver(s).WithAutocast(j.rung.cast), s.Input(batch.X), s.Input(batch.Y))
		j.loss += l.Item() / float64(j.rung.micro)
		updated, err := j.window.Backward(s, l)
		if err != nil {
			return err
		}
		s.Free(l)
		if updated && j.cosine != nil {
			if err := j.cosine.Step(); err != nil {
				return err
			}
		}
	}
	return nil
}

// lossOf is the mean cross-entropy of what the model gives, by the fused head if the rung and the model have one.
func (j *job) lossOf(s *autograd.Scope, x, y *autograd.Value) *autograd.Value {
	return s.Do("", func(s *autograd.Scope) *autograd.Value { // ends the images in another dtype
		x := j.input(s, x)
		if m, ok := j.model.(*nn.GPT); ok && j.rung.fused {
			return m.Loss(s, x, y)
		}
		return s.Do("loss", func(s *autograd.Scope) *autograd.Value {
			if j.rung.naive {
				return naiveLoss(s, j.forward(s, x), y)
			}
			return ops.CrossEntropy(s, j.forward(s, x), y)
		})
	})
}

// input gives images in the dtype of the model; tokens stay what they are.
func (j *job) input(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	if x.DType().IsFloat() {
		return ops.Cast(s, x, j.rung.dtype)
	}
	return x
}

// train runs all steps and gives the median time of one, in milliseconds.
func (j *job) train(ctx context.Context, p *row.Progress) (ms row.Number, err error) {
	p.Start(j.rung.name, j.Steps)
	var times row.Times
	defer func() { j.epoch.Close() }()
	for step := range j.Steps {
		if at := step % j.updates(); at == 0 && step > 0 {
			j.epoch.Close()
			if j.epoch, err = j.loader.Open(ctx, step/j.updates()); err != nil {
				return ms, err
			}
		}
		start := time.Now()
		if err := j.sess.Step(ctx, j.update); err != nil {
			return ms, err
		}
		times.Since(start)
		j.losses = append(j.losses, j.loss)
		p.Step(step+1, j.loss)
	}
	return times.Median(), nil
}

// end is the mean loss of the last tenth of the updates.
func (j *job) end() float64 {
	sum, last := 0.0, j.losses[len(j.losses)-(len(j.losses)+9)/10:]
	for _, loss := range last {
		sum += loss
	}
	return sum / float64(len(last))
}

// accuracy is the share of test examples whose class has the highest logit, of those in full batches.
func (j *job) accuracy(ctx context.Context) (float64, error) {
	tests, err := data.NewLoader(j.dev, j.test, data.LoaderConfig{Batch: j.Batch / j.rung.micro, DropLast: true})
	if err != nil {
		return 0, err
	}
	return mnist.Accuracy(ctx, j.sess, tests, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
		return ops.Cast(s, j.forward(s, j.input(s, x)), tensor.Float32)
	})
}
