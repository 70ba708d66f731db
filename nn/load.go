package nn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// LoadStateDict copies the values of sd into the parameters of m, frozen ones included, and into its buffers. It is
// strict: every parameter and buffer must be there, nothing else may be, and shapes and dtypes must be equal, for what is converted or left out silently
// trains wrong. One error lists everything that does not match, and then nothing has been copied.
//
// A tied parameter goes by any of its names. Under several of them, as torch saves it, it must hold the same values.
//
// Gradients and optimizer state stay as they are. Loading takes a step of the session for itself, so that within a Step
// or a Plan it is refused.
func LoadStateDict(m any, sd State) error {
	l := newLoader(m)
	for _, e := range sd {
		l.offer(e)
	}
	l.missing()
	if err := l.err(m); err != nil {
		return err
	}
	if err := alone(l.sessions(), l.copy); err != nil {
		return fmt.Errorf("nn: LoadStateDict: %w", err)
	}
	return nil
}

// loader matches what is offered with what a model wants.
type loader struct {
	*walker
	from     []*Entry // for each parameter and buffer
	wrong    []bool   // offered, but refused
	storage  map[*memory.Buffer]int
	problems []string
}

func newLoader(m any) *loader {
	l := &loader{walker: walk(m), storage: map[*memory.Buffer]int{}}
	l.from, l.wrong = make([]*Entry, len(l.list)), make([]bool, len(l.list))
	for i, e := range l.list {
		switch {
		case e.p == nil:
			l.storage[e.buf.Buffer()] = i
		case e.p.Home() == nil:
			l.storage[e.p.Tensor().Buffer()] = i
		}
	}
	return l
}

func (l *loader) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// offer takes e if it fits.
func (l *loader) offer(e Entry) {
	i, ok := l.find(e.Name)
	if !ok {
		l.problem("unexpected: %s %s", e.Name, specOf(e.Tensor))
		return
	}
	if why := l.misfit(i, e); why != "" {
		l.problem("%s", why)
		l.wrong[i] = true
		return
	}
	l.from[i] = &e
}

// spec is what e holds.
func (e named) spec() tensor.Spec {
	if e.p == nil {
		return e.buf.Spec()
	}
	return e.p.Spec()
}

// gone says that there is nothing to load into any more, "" if there is.
func (e named) gone() string {
	switch {
	case e.p != nil && e.p.Released():
		return "the parameter was released, or its session closed"
	case e.p == nil && (e.buf.Empty() || e.buf.Buffer().Refs() == 0):
		return "the buffer was released, or its session closed"
	}
	return ""
}

// dry tells whether e has no bytes to load into.
func (e named) dry() bool {
	if e.p == nil {
		return e.buf.Buffer().Device().Virtual()
	}
	return e.p.Session().Dry()
}

// misfit says why e cannot be the value of parameter or buffer i, "" if it can.
func (l *loader) misfit(i int, e Entry) string {
	to, t := l.list[i], e.Tensor
	switch old := l.from[i]; {
	case to.gone() != "":
		return fmt.Sprintf("%s: %s", e.Name, to.gone())
	case t == nil || t.Empty():
		return fmt.Sprintf("%s: got no tensor: want %s", e.Name, to.spec())
	case t.Buffer().Refs() == 0:
		return fmt.Sprintf("%s: got a tensor that was released: want %s", e.Name, to.spec())
	case !t.Spec().Equal(to.spec()):
		return fmt.Sprintf("%s: got %s: want %s", e.Name, t.Spec(), to.spec())
	case t.Elems() > 0 && t.Buffer().Bytes() == nil && !to.dry():
		return fmt.Sprintf("%s: got %s without data, made on a virtual device or in a dry run", e.Name, t.Spec())
	case old != nil && old.Name == e.Name:
		return fmt.Sprintf("%s: given twice", e.Name)
	case old != nil && !tensor.Equal(old.Tensor, t):
		return fmt.Sprintf("%s: other values than %s, and they are one tied parameter", e.Name, old.Name)
	}
	if k, own := l.storage[t.Buffer()]; own && (k != i || !t.IsContiguous()) {
		const why = "%s: got the storage of the model's own %s, which loading writes to: want a copy (State.Clone)"
		return fmt.Sprintf(why, e.Name, l.list[k].name)
	}
	return ""
}

// missing lists the parameters and buffers that nothing was offered for.
func (l *loader) missing() {
	for i, e := range l.list {
		if l.from[i] == nil && !l.wrong[i] {
			l.problem("missing: %s %s", e.name, e.spec())
		}
	}
}

// err gives all problems as one error.
func (l *loader) err(m any) error {
	switch n := len(l.problems); n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("nn: LoadStateDict: %T: nothing loaded: %s", m, l.problems[0])
	default:
		all := strings.Join(l.problems, "\n  ")
		return fmt.Errorf("nn: LoadStateDict: %T: nothing loaded: %d names do not match:\n  %s", m, n, all)
	}
}

// copy fills the parameters and buffers. Everything has been checked.
func (l *loader) copy() error {
	for i, e := range l.list {
		put := func(t *tensor.Tensor) error { return store(e.p, t) }
		if e.p == nil {
			put = func(t *tensor.Tensor) error { return tensor.Copy(e.buf, t) }
		}
		if err := put(l.from[i].Tensor); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// store makes t the value of p, wherever p lives.
func store(p *autograd.Param, t *tensor.Tensor) error {
	w, err := p.Fetch()
	if err != nil {
		return err
	}
	defer w.Release()
	if err := tensor.Copy(&w, t); err != nil {
		return err
	}
	return p.Store(&w)
}

// sessions lists whose the parameters are.
func (l *loader) sessions() (all []*autograd.Session) {
	for _, e := range l.list {
		if e.p == nil {
			continue
		}
		if ss := e.p.Session(); !slices.Contains(all, ss) {
			all = append(all, ss)
		}
	}
	return all
}

// alone runs f as a step of every session, which is refused while another runs.
func alone(all []*autograd.Session, f func() error) error {
	if len(all) == 0 {
		return f()
	}
	return all[0].Step(context.Background(), func(*autograd.Scope) error { return alone(all[1:], f) })
}

// find gives the parameter that goes by name: its own, or one that leads through something reached by several paths. Each
// turn uses up a part of name, so that cycles end.
func (w *walker) find(name string) (i int, ok bool) {
	for range strings.Count(name, ".") + 2 {
		if i, ok = w.index[name]; ok {
			return i, true
		}
		if name, ok = w.first(name); !ok {
			return 0, false
		}
	}
	return 0, false
}

// first puts the first path to a thing in the place of another, the longest that name begins with.
func (w *walker) first(name string) (string, bool) {
	for end := len(name); end >= 0; end = strings.LastIndexByte(name[:end], '.') {
		if path, ok := w.alias[name[:end]]; ok {
			return join(path, strings.TrimPrefix(name[end:], ".")), true
		}
	}
	return "", false
}

func specOf(t *tensor.Tensor) string {
	if t == nil || t.Empty() {
		return "(no tensor)"
	}
	return t.Spec().String()
}
