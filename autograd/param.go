package autograd

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Param is a tensor that training changes, and its gradient. The session owns it until Release or the session's Close.
type Param struct {
	name   string
	ss     *Session
	spec   tensor.Spec
	t      tensor.Tensor // empty: in its home
	grad   tensor.Tensor // empty: none on the device
	stale  bool          // a failed step had added to grad
	frozen bool
	value  Value // what ops take
	ready  []func(*Scope, *Param) error
	gone   bool
	eaten  bool // see Consumed
	summed bool // see Accumulated

	home     Home // nil: on the device
	key      string
	homeGrad bool // the home has a gradient

	gradScale   float64 // see GradScale
	gradVersion uint64  // see GradVersion
	squares     float64 // of the gradient that had this version
	squaredAt   uint64

	puts uint32 // changes of the value by Store and SetHome

	madeIn    uint64 // step that made grad
	putIn     uint64 // step that handed a gradient to the home
	touchedIn uint64 // step that listed p as touched
	plannedIn uint64 // dry run that journaled grad
	pending   int    // edges of the running pass not yet processed
}

// NewParam allocates a parameter of the given spec, counted as Param, and fills it with init, which draws from the
// session's stream for initial values; nil leaves zeros. name appears in errors until a walk of the module gives the
// full path.
func (ss *Session) NewParam(name string, spec tensor.Spec, init func(*tensor.Tensor, *tensor.Stream) error) (*Param, error) {
	wrap := func(err error) error { return fmt.Errorf("autograd: parameter %s: %w", name, err) }
	if ss.running.Load() || ss.closed {
		return nil, wrap(errors.New("made within a step or on a closed session: build models before the first Step"))
	}
	if err := spec.Validate(); err != nil {
		return nil, wrap(err)
	}
	if !spec.DType.IsFloat() {
		return nil, wrap(fmt.Errorf("only floating point values can require gradients, got %s", spec))
	}
	t, err := tensor.Zeros(ss.dev, memory.Param, memory.Site{Op: "param", Scope: name}, spec)
	if err != nil {
		return nil, wrap(err)
	}
	if init != nil {
		stream := ss.init
		if err := init(t, &ss.init); err != nil {
			t.Release()
			ss.init = stream
			return nil, wrap(err)
		}
	}
	p := &Param{name: name, ss: ss, spec: t.Spec(), t: *t, gradScale: 1}
	p.value = Value{t: p.t, ss: ss, par: p, site: memory.Site{Op: "param", Scope: name}}
	ss.params = append(ss.params, p)
	if ss.birthplace == nil {
		return p, nil
	}
	if err := p.SetHome(ss.birthplace); err != nil {
		p.Release()
		ss.params = ss.params[:len(ss.params)-1]
		return nil, wrap(err)
	}
	return p, nil
}

// Name is the parameter's path in its module.
func (p *Param) Name() string { return p.name }

// SetName gives the path; package nn does it when it walks a module.
func (p *Param) SetName(name string) {
	p.name = name
	p.value.site.Scope = name
	if b := p.t.Buffer(); b != nil && b.Site().Scope != name {
		b.SetSite(memory.Site{Op: b.Site().Op, Scope: name})
	}
}

// Session is the session that made p.
func (p *Param) Session() *Session { return p.ss }

// Spec gives dtype and shape.
func (p *Param) Spec() tensor.Spec { return p.spec }

// Value is what ops take. It belongs to no scope.
func (p *Param) Value() *Value {
	p.value.grad = !p.frozen
	return &p.value
}

// Tensor is the parameter's own tensor. Whoever writes to it raises its version (functions of package tensor do). It
// panics for a parameter that lives in a Home: Fetch and Store do for all.
func (p *Param) Tensor() *tensor.Tensor {
	if p.home != nil {
		raisef("tensor", p.name, "parameter %s lives in a Home and has no tensor of its own: use Fetch and Store", p.name)
	}
	return &p.t
}

// Grad is the accumulated gradient, of the parameter's spec; nil means none, which is not the same as zeros: optimizers
// skip the parameter. The gradient of a parameter in a Home is there only while a pass makes it; see FetchGrad.
func (p *Param) Grad() *tensor.Tensor { return present(&p.grad) }

// SetGrad makes a copy of g, of the parameter's spec, the gradient, as resuming within a window of micro-batches wants it.
// There must be none yet. It is called between steps.
func (p *Param) SetGrad(g *tensor.Tensor) error {
	wrap := func(err error) error { return fmt.Errorf("autograd: SetGrad of parameter %s: %w", p.name, err) }
	switch {
	case p.gone || p.ss.running.Load():
		return wrap(errors.New("the parameter was released, or a step is running: call it between steps"))
	case p.home != nil:
		return wrap(errors.New("the parameter lives in a Home, which holds its gradient: use Home.AddGrad"))
	case p.HasGrad():
		return wrap(errors.New("there is a gradient already: call ZeroGrad first"))
	case g == nil || g.Empty() || !g.Spec().Equal(p.spec):
		got := "nothing"
		if g != nil && !g.Empty() {
			got = g.Spec().String()
		}
		return wrap(fmt.Errorf("assigned grad has data of a different type or size: got %s, want %s", got, p.spec))
	}
	t, err := tensor.New(p.ss.dev, memory.Grad, memory.Site{Op: "setgrad", Scope: p.name}, p.spec)
	if err != nil {
		return wrap(err)
	}
	if err := tensor.Copy(t, g); err != nil {
		t.Release()
		return wrap(err)
	}
	p.grad, p.gradScale = *t, 1
	p.gradVersion++
	return nil
}

// Stale tells that a failed step had added to the gradient: it is half a sum, and Backward and optimizers refuse it
// until ZeroGrad.
func (p *Param) Stale() bool { return p.stale }

// Released tells that p was released.
func (p *Param) Released() bool { return p.gone }

// Frozen parameters require no gradient.
func (p *Param) Frozen() bool { return p.frozen }

// SetFrozen freezes or thaws p from the next operation on.
func (p *Param) SetFrozen(frozen bool) { p.frozen = frozen }

// OnGradReady runs f in backward when p has received its last gradient of that pass, in the pass's scope without
// recording. An error of f fails the step.
func (p *Param) OnGradReady(f func(*Scope, *Param) error) { p.ready = append(p.ready, f) }

// SetConsumed says that an OnGradReady function uses the gradient up and gives it back within backward. Whoever needs
// whole gradients after backward (accumulation, clipping by a global norm) must refuse p.
func (p *Param) SetConsumed() { p.eaten = true }

// SetAccumulated says whether gradients of several backward passes are added up before they are used, as a train.Window
// does. It changes no value: an op that can compute a gradient ahead of Backward, in a buffer that becomes the gradient,
// does not where a gradient is there already.
func (p *Param) SetAccumulated(yes bool) { p.summed = yes }

// Accumulated tells what SetAccumulated said last.
func (p *Param) Accumulated() bool { return p.summed }

// Consumed tells whether SetConsumed was called.
func (p *Param) Consumed() bool { return p.eaten }

// ZeroGrad gives the gradient's buffer back.
func (p *Param) ZeroGrad() {
	p.journalGrad()
	if p.homeGrad && p.ss.plan == nil {
		p.home.ForgetGrad(p.key)
	}
	p.stale, p.homeGrad, p.gradScale = false, false, 1
	p.gradVersion++
	if p.grad.Empty() {
		return
	}
	p.grad.Release()
	p.grad = tensor.Tensor{}
}

// Release gives back the parameter and its gradient; using p afterwards is an error. The session's Close does it too.
func (p *Param) Release() {
	if p.gone {
		return
	}
	if p.ss.running.Load() {
		raisef("release", p.name, "a parameter is released within a step: return from it first")
	}
	p.ZeroGrad()
	p.gone = true
	if p.home == nil {
		p.t.Release()
	} else {
		p.home.Forget(p.key)
	}
}

func (p *Param) use(op, scope string) {
	if p.gone {
		raisef(op, scope, "parameter %s was released", p.name)
	}
}

// setGrad takes over a gradient made in this step.
func (p *Param) setGrad(t tensor.Tensor) {
	p.TouchGrad()
	p.grad, p.madeIn = t, p.ss.stepID
}

// TouchGrad says that the running step is about to change the gradient in place: if the step fails, the gradient is
// stale. Backward does it; whoever scales or clips gradients calls it first. Outside a step it does nothing.
func (p *Param) TouchGrad() {
	p.journalGrad()
	p.gradVersion++
	if p.ss.running.Load() && p.touchedIn != p.ss.stepID {
		p.touchedIn = p.ss.stepID
		p.ss.touched = append(p.ss.touched, p)
	}
}

// journalGrad remembers the gradient that a dry run is about to change.
func (p *Param) journalGrad() {
	if p.ss.plan == nil || p.plannedIn == p.ss.planID {
		return
	}
	p.plannedIn = p.ss.planID
	grad, stale, madeIn, homeGrad := p.grad, p.stale, p.madeIn, p.homeGrad
	scale, version, squares, at := p.gradScale, p.gradVersion, p.squares, p.squaredAt
	p.ss.OnPlanEnd(func() {
		p.grad, p.stale, p.madeIn, p.homeGrad = grad, stale, madeIn, homeGrad
		p.gradScale, p.gradVersion, p.squares, p.squaredAt = scale, version, squares, at
	})
}

// rollbackGrads: gradients that the failed step made go, those it had added to are stale (R8).
func (ss *Session) rollbackGrads() {
	for _, p := range ss.touched {
		if p.home != nil && p.putIn == ss.stepID {
			p.stale = true
		}
		switch {
		case p.grad.Empty():
		case p.madeIn == ss.stepID:
			p.grad.Release()
			p.grad = tensor.Tensor{}
		default:
			p.stale = true
		}
	}
}
