package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/examples/internal/mnist"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// settings are what all rungs of a run have in common; the child process gets them as JSON.
type settings struct {
	Rung    string
	Data    string // folder of IDX files; "": MNIST from the module cache
	Batch   int    // images an update
	Hidden  int    // width of the hidden layers
	Steps   int    // updates; 0: Epochs decides
	Epochs  int
	Seed    uint64
	Threads int
}

// job is one rung at work.
type job struct {
	settings
	rung   rung
	images *data.Images
	test   *data.Images
	norm   data.Norm

	dev    *memory.Device
	sess   *autograd.Session
	model  nn.Sequential
	opt    optim.Optimizer
	cosine *optim.CosineAnnealing
	window *train.Window
	x, y   *tensor.Tensor // one micro-batch

	order []int32 // of the epoch
	epoch int
	step  int
	loss  float64
}

// run builds the model, predicts the peak, trains, and measures.
func run(ctx context.Context, c settings, p *row.Progress) (r row.Row, err error) {
	j := &job{settings: c, epoch: -1}
	if err := j.load(ctx); err != nil {
		return r, err
	}
	meter := row.StartResident()
	if err := j.build(); err != nil {
		return r, err
	}
	r = row.Row{Name: j.rung.name, Steps: j.Steps}

	plan, err := j.sess.Plan(j.update, autograd.PlanConfig{})
	if err != nil {
		return r, err
	}
	worst := slices.MaxFunc(plan.Steps, func(a, b autograd.StepPlan) int { return int(a.Peak - b.Peak) })
	r.Predict(plan.Peak(), plan.Arena(), worst.ByKind)

	ms, err := j.train(ctx, p)
	if err != nil {
		return r, err
	}
	r.Measure(j.dev.Stats())
	r.RSS = meter.Peak()
	r.StepMS, r.Loss = row.Num(ms), row.Num(j.loss)
	if j.Epochs > 0 {
		accuracy, err := j.accuracy(ctx)
		if err != nil {
			return r, err
		}
		r.Accuracy = row.Num(accuracy)
	}
	return r, j.close()
}

// load reads the data and fixes the number of updates.
func (j *job) load(ctx context.Context) (err error) {
	if j.rung, err = findRung(j.Rung); err != nil {
		return err
	}
	if j.Batch < j.rung.micro || j.Batch%j.rung.micro != 0 {
		return fmt.Errorf("ladder: batch %d: want a multiple of %d, the micro-batches of rung %s", j.Batch, j.rung.micro, j.rung.name)
	}
	if j.images, j.test, err = mnist.Load(ctx, j.Data); err != nil {
		return err
	}
	if j.Batch > j.images.N {
		return fmt.Errorf("ladder: batch %d: want at most %d, the images of the training set", j.Batch, j.images.N)
	}
	j.norm = j.images.Norm()
	if j.Epochs > 0 {
		j.Steps = j.Epochs * (j.images.N / j.Batch)
	}
	return nil
}

// build makes everything that lives for the whole training, counted on the device.
func (j *job) build() (err error) {
	if j.dev, err = memory.NewDevice(memory.Config{}); err != nil {
		return err
	}
	if j.sess, err = autograd.New(autograd.Config{Device: j.dev, Seed: j.Seed, Workers: j.Threads}); err != nil {
		return err
	}
	pixels := j.images.H * j.images.W
	if j.model, err = mlp(j.sess, pixels, j.Hidden, j.images.Classes); err != nil {
		return err
	}
	if j.opt, j.cosine, err = j.rung.optimizer(nn.Params(j.model), j.Steps); err != nil {
		return err
	}
	if j.window, err = train.NewWindow(j.opt, train.WindowConfig{Micro: j.rung.micro}); err != nil {
		return err
	}
	site, n := memory.Site{Op: "batch"}, j.Batch/j.rung.micro
	if j.x, err = tensor.New(j.dev, memory.Input, site, tensor.Of(tensor.Float32, n, pixels)); err != nil {
		return err
	}
	j.y, err = tensor.New(j.dev, memory.Input, site, tensor.Of(tensor.Int64, n))
	return err
}

// close gives all back; what is still alive then is a leak, and an error.
func (j *job) close() error {
	j.x.Release()
	j.y.Release()
	if err := j.sess.Close(); err != nil {
		return err
	}
	return j.dev.Close()
}

// mlp is in -> hidden -> ReLU -> hidden -> ReLU -> out.
func mlp(sess *autograd.Session, in, hidden, out int) (nn.Sequential, error) {
	var net nn.Sequential
	for i, width := range []int{hidden, hidden, out} {
		if i > 0 {
			net = append(net, nn.ReLU{})
		}
		fc, err := nn.NewLinear(sess, in, width)
		if err != nil {
			return nil, err
		}
		net, in = append(net, fc), width
	}
	return net, nil
}

// update is one training step: the same code runs dry and for real.
func (j *job) update(s *autograd.Scope) error {
	j.loss = 0
	for m := range j.rung.micro {
		if !s.Dry() {
			if err := j.fill(m); err != nil {
				return err
			}
		}
		x, y := s.Input(j.x), s.Input(j.y)
		loss := s.Do("loss", func(s *autograd.Scope) *autograd.Value {
			return ops.CrossEntropy(s, j.model.Forward(s, x), y)
		})
		j.loss += loss.Item() / float64(j.rung.micro)
		updated, err := j.window.Backward(s, loss)
		if err != nil {
			return err
		}
		s.Free(loss)
		if updated && j.cosine != nil {
			if err := j.cosine.Step(); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill reads micro-batch m of the present step into x and y.
func (j *job) fill(m int) error {
	perEpoch := j.images.N / j.Batch
	if epoch := j.step / perEpoch; epoch != j.epoch {
		j.epoch = epoch
		j.order = data.Shuffle(j.images.N, j.Seed, uint64(epoch))
	}
	n := j.Batch / j.rung.micro
	at := j.step%perEpoch*j.Batch + m*n
	j.x.Bump()
	j.y.Bump()
	return j.images.Batch(j.order[at:at+n], tensor.Data[float32](j.x), tensor.Data[int64](j.y), j.norm)
}

// train runs all steps and gives the median time of one, in milliseconds.
func (j *job) train(ctx context.Context, p *row.Progress) (float64, error) {
	j.dev.ResetPeak()
	p.Start(j.rung.name, j.Steps)
	var times []float64
	for j.step = range j.Steps {
		start := time.Now()
		if err := j.sess.Step(ctx, j.update); err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(start).Microseconds())/1e3)
		p.Step(j.step+1, j.loss)
	}
	if len(times) == 0 {
		return math.NaN(), nil
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// accuracy is the share of test images whose class has the highest logit.
func (j *job) accuracy(ctx context.Context) (float64, error) {
	n := j.x.Shape()[0]
	right, seen := 0, 0
	for at := 0; at+n <= j.test.N; at += n {
		idx := make([]int32, n)
		for i := range idx {
			idx[i] = int32(at + i)
		}
		if err := j.test.Batch(idx, tensor.Data[float32](j.x), tensor.Data[int64](j.y), j.norm); err != nil {
			return 0, err
		}
		err := j.sess.Step(ctx, func(s *autograd.Scope) error {
			logits := j.model.Forward(s.NoGrad().Eval(), s.Input(j.x))
			right += count(tensor.Data[float32](logits.Tensor()), tensor.Data[int64](j.y))
			return nil
		})
		if err != nil {
			return 0, err
		}
		seen += n
	}
	return float64(right) / float64(seen), nil
}

// count tells how many rows of logits are highest at their label.
func count(logits []float32, labels []int64) (right int) {
	classes := len(logits) / len(labels)
	for i, label := range labels {
		r := logits[i*classes:][:classes]
		if r[label] == slices.Max(r) {
			right++
		}
	}
	return right
}
