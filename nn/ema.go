package nn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// EMA keeps an exponential moving average of parameters (Polyak and Juditsky, 1992), with which a model often does better
// than with the last ones: torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn.
//
//	average += (1 - decay) (value - average)
//
// It costs the bytes of the parameters' values once more, counted as memory.Other. Averages of half types are Float32,
// since in the type itself they would stand still. Buffers are not averaged.
type EMA struct {
	sess    *autograd.Session
	params  []*autograd.Param
	avg     []*tensor.Tensor
	own     []*tensor.Tensor // of half types, while the averages are in the model: its own values
	decay   float64
	swapped bool
}

// NewEMA makes an average that starts as the present values. params are of one session, whose Close closes
// the average too; decay is from 0 to 1, 0.999 for example, and has no default.
func NewEMA(params []*autograd.Param, decay float64) (*EMA, error) {
	e := &EMA{params: slices.Clone(params), decay: decay}
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("nn: NewEMA: %w", err)
	}
	e.sess = params[0].Session()
	for _, p := range params {
		if err := e.start(p); err != nil {
			e.Close()
			return nil, fmt.Errorf("nn: NewEMA: %s: %w", p.Name(), err)
		}
	}
	e.sess.OnClose(e.Close)
	return e, nil
}

func (e *EMA) check() error {
	switch {
	case len(e.params) == 0:
		return errors.New("no parameters")
	case !(e.decay >= 0 && e.decay <= 1):
		return fmt.Errorf("decay %v: want 0 to 1", e.decay)
	}
	seen := map[*autograd.Param]bool{}
	for _, p := range e.params {
		switch {
		case p.Session() != e.params[0].Session():
			return fmt.Errorf("%s is another session's: want parameters of one session", p.Name())
		case p.Session().Running():
			return errors.New("made within a step: make averages before")
		case p.Released():
			return fmt.Errorf("%s was released", p.Name())
		case seen[p]:
			return fmt.Errorf("%s is given twice", p.Name())
		}
		seen[p] = true
	}
	return nil
}

// start makes the average of p.
func (e *EMA) start(p *autograd.Param) error {
	t, err := p.Fetch()
	if err != nil {
		return err
	}
	defer t.Release()
	c, err := t.To(averageType(t.DType()), memory.Other, memory.Site{Op: "ema", Scope: p.Name()})
	if err == nil {
		e.avg, e.own = append(e.avg, c), append(e.own, nil)
	}
	return err
}

func averageType(dt tensor.DType) tensor.DType {
	if isHalf(dt) {
		return tensor.Float32
	}
	return dt
}

// Update moves the averages towards the values of now; it is called after the optimizer's step. If the step in which it
// runs fails, the averages are put back; a dry run and a replay leave them. For that they are copied (see
// autograd.Scope.JournalTensor): to the step's end, once more their bytes. An Update in a step of its own, after the
// training step has succeeded, keeps the copies out of that step's peak.
func (e *EMA) Update(s *autograd.Scope) {
	site := memory.Site{Op: "ema", Scope: s.Path()}
	fail := func(err error) {
		if err != nil {
			panic(&autograd.Error{Op: site.Op, Scope: site.Scope, Err: err})
		}
	}
	fail(e.usable())
	if s.Session() != e.sess {
		fail(errors.New("the scope is another session's"))
	}
	if s.Modes().Replay {
		return
	}
	for i := range e.params {
		fail(e.update(s, site, i))
	}
}

// update moves average i.
func (e *EMA) update(s *autograd.Scope, site memory.Site, i int) error {
	p, avg := e.params[i], e.avg[i]
	if p.Released() {
		return fmt.Errorf("%s: the parameter was released", p.Name())
	}
	s.JournalTensor(avg)
	t, err := p.Fetch()
	if err != nil {
		return err
	}
	defer func() { t.Release() }()
	if t.DType() != avg.DType() {
		wide, err := t.To(avg.DType(), memory.Temporary, site)
		if err != nil {
			return err
		}
		t.Release()
		t = *wide
	}
	s.Run(site, autograd.Work{Chunks: emaChunks(avg)}, func(r *autograd.Run) {
		r.Par(emaChunks(avg), func(_, c int) { follow(avg, &t, c, 1-e.decay) })
	})
	avg.Bump()
	return nil
}

// usable says why averages cannot be moved, nil if they can.
func (e *EMA) usable() error {
	if len(e.avg) == 0 {
		return errors.New("the average is closed")
	}
	if e.swapped {
		return errors.New("the averages are in the model, and its own values here: Swap them back first")
	}
	return nil
}

// emaChunk is how many elements a worker moves at a time.
const emaChunk = 1 << 14

func emaChunks(t *tensor.Tensor) int { return (t.Elems() + emaChunk - 1) / emaChunk }

// follow moves chunk c of avg by share of the way to x.
func follow(avg, x *tensor.Tensor, c int, share float64) {
	if avg.DType() == tensor.Float32 {
		followAll(chunk[float32](avg, c), chunk[float32](x, c), float32(share))
	} else {
		followAll(chunk[float64](avg, c), chunk[float64](x, c), share)
	}
}

func chunk[T tensor.Elem](t *tensor.Tensor, c int) []T {
	d := tensor.Data[T](t)
	return d[c*emaChunk : min(len(d), (c+1)*emaChunk)]
}

// followAll rounds each product, so that the result is the same on machines that would fuse it with the sum.
func followAll[T float32 | float64](avg, x []T, share T) {
	for i := range avg {
		avg[i] += T(share * (x[i] - avg[i]))
	}
}

// Swap exchanges the parameters' values and the averages, between steps: to evaluate, or to save, a model with the
// averages; a second Swap brings the values back. In between Update refuses. It takes no memory, except that values of half
// types are put aside while their averages, rounded, are in the model. If it fails, everything is as it was.
func (e *EMA) Swap() error {
	switch {
	case len(e.avg) == 0:
		return errors.New("nn: EMA.Swap: the average is closed")
	case e.sess.Running():
		return errors.New("nn: EMA.Swap: a step is running: swap between steps")
	}
	for i, p := range e.params {
		if err := e.exchange(i); err != nil {
			for k := range i {
				err = errors.Join(err, e.exchange(k))
			}
			return fmt.Errorf("nn: EMA.Swap: %s: %w", p.Name(), err)
		}
	}
	e.swapped = !e.swapped
	return nil
}

// exchange swaps the value and the average of parameter i; after an error they are as before.
func (e *EMA) exchange(i int) error {
	p, avg := e.params[i], e.avg[i]
	if p.Released() {
		return errors.New("the parameter was released")
	}
	t, err := p.Fetch()
	if err != nil {
		return err
	}
	defer t.Release()
	if isHalf(t.DType()) {
		return e.exchangeHalf(i, &t)
	}
	swapValues(avg, &t)
	if err := p.Store(&t); err != nil {
		swapValues(avg, &t)
		return err
	}
	avg.Bump()
	return nil
}

// exchangeHalf puts the average of parameter i, rounded, into the value t, or the value that was put aside.
func (e *EMA) exchangeHalf(i int, t *tensor.Tensor) error {
	p, avg, own := e.params[i], e.avg[i], e.own[i]
	if own != nil {
		if err := putInto(p, t, own); err != nil {
			return errors.Join(err, tensor.Convert(t, avg))
		}
		own.Release()
		e.own[i] = nil
		return nil
	}
	own, err := t.To(t.DType(), memory.Other, memory.Site{Op: "ema", Scope: p.Name()})
	if err != nil {
		return err
	}
	if err := putInto(p, t, avg); err != nil {
		err = errors.Join(err, tensor.Copy(t, own))
		own.Release()
		return err
	}
	e.own[i] = own
	return nil
}

// putInto gives p the value v by way of t, which Fetch gave.
func putInto(p *autograd.Param, t, v *tensor.Tensor) error {
	if err := tensor.Convert(t, v); err != nil {
		return err
	}
	return p.Store(t)
}

func swapValues(a, b *tensor.Tensor) {
	if a.DType() == tensor.Float32 {
		swapAll(tensor.Data[float32](a), tensor.Data[float32](b))
	} else {
		swapAll(tensor.Data[float64](a), tensor.Data[float64](b))
	}
}

func swapAll[T float32 | float64](a, b []T) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}

// Swapped tells whether the averages are in the model.
func (e *EMA) Swapped() bool { return e.swapped }

// State gives the averages under their parameters' names, to save them, or to write saved ones into them (tensor.Copy). The
// tensors are e's own and end with it. While they are in the model, those here are the model's own values, but for half
// types, which stay averages.
func (e *EMA) State() State {
	var sd State
	for i, t := range e.avg {
		sd = append(sd, Entry{Name: e.params[i].Name(), Tensor: t})
	}
	return sd
}

// Close gives the memory back; if the averages are in the model, they stay there. A second Close does nothing. It must not
// be called within a step.
func (e *EMA) Close() {
	for _, t := range e.avg {
		t.Release()
	}
	for _, t := range e.own {
		if t != nil {
			t.Release()
		}
	}
	e.avg, e.own = nil, nil
}
