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
		l.offer(inMemory{e})
	}
	if err := l.load(m); err != nil {
		return fmt.Errorf("nn: LoadStateDict: %w", err)
	}
	return nil
}

// loader matches what is offered with what a model wants.
type loader struct {
	*walker
	from     []source // for each parameter and buffer
	wrong    []bool   // offered, but refused
	storage  map[*memory.Buffer]int
	problems []string
}

// source is a value that may become a parameter's or a buffer's.
type source interface {
	name() string
	// what is its dtype and shape, for messages.
	what() string
	// misfit says why it cannot be the value of parameter or buffer i, "" if it can.
	misfit(l *loader, i int) string
	// same compares it with another of the same kind.
	same(o source) (bool, error)
	// fill writes it to dst.
	fill(dst *tensor.Tensor) error
}

func newLoader(m any) *loader {
	l := &loader{walker: walk(m), storage: map[*memory.Buffer]int{}}
	l.from, l.wrong = make([]source, len(l.list)), make([]bool, len(l.list))
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

// offer takes src if it fits.
func (l *loader) offer(src source) {
	i, ok := l.find(src.name())
	if !ok {
		l.problem("unexpected: %s %s", src.name(), src.what())
		return
	}
	why := l.list[i].gone()
	if why == "" {
		why = src.misfit(l, i)
	}
	if why == "" {
		why = l.repeats(i, src)
	}
	if why == "" {
		why = l.aliases(i, src)
	}
	if why != "" {
		l.problem("%s: %s", src.name(), why)
		l.wrong[i] = true
		return
	}
	l.from[i] = src
}

// repeats says why src cannot be offered beside what was for i before it.
func (l *loader) repeats(i int, src source) string {
	old := l.from[i]
	if old == nil {
		return ""
	}
	if old.name() == src.name() {
		return "given twice"
	}
	switch same, err := old.same(src); {
	case err != nil:
		return err.Error()
	case !same:
		return fmt.Sprintf("other values than %s, and they are one tied parameter", old.name())
	}
	return ""
}

// aliases says whose storage src is, if loading would write to it.
func (l *loader) aliases(i int, src source) string {
	s, ok := src.(inMemory)
	if !ok || s.e.away() {
		return ""
	}
	if k, own := l.storage[s.e.Tensor.Buffer()]; own && (k != i || !s.e.Tensor.IsContiguous()) {
		return fmt.Sprintf("got the storage of the model's own %s, which loading writes to: want a copy (State.Clone)", l.list[k].name)
	}
	return ""
}

// load copies what was offered, if it is what the model wants and no step is running.
func (l *loader) load(m any) error {
	l.missing()
	if err := l.err(m); err != nil {
		return err
	}
	return alone(l.sessions(), l.copy)
}

// inMemory is an Entry as a source.
type inMemory struct{ e Entry }

func (s inMemory) name() string { return s.e.Name }

func (s inMemory) what() string { return specOf(s.e) }

func (s inMemory) misfit(l *loader, i int) string {
	to, t := l.list[i], s.e.Tensor
	switch {
	case s.e.away() && s.e.p.Released():
		return fmt.Sprintf("got a parameter that was released: want %s", to.spec())
	case s.e.away() && s.e.Spec().Equal(to.spec()):
		return ""
	case !s.e.away() && (t == nil || t.Empty()):
		return fmt.Sprintf("got no tensor: want %s", to.spec())
	case t != nil && t.Buffer().Refs() == 0:
		return fmt.Sprintf("got a tensor that was released: want %s", to.spec())
	case !s.e.Spec().Equal(to.spec()):
		return fmt.Sprintf("got %s: want %s", s.e.Spec(), to.spec())
	case t.Elems() > 0 && t.Buffer().Bytes() == nil && !to.dry():
		return fmt.Sprintf("got %s without data, made on a virtual device or in a dry run", t.Spec())
	}
	return ""
}

func (s inMemory) same(o source) (same bool, err error) {
	err = s.e.with(func(t *tensor.Tensor) error {
		return o.(inMemory).e.with(func(u *tensor.Tensor) error {
			same = tensor.Equal(t, u)
			return nil
		})
	})
	return same, err
}

func (s inMemory) fill(dst *tensor.Tensor) error {
	return s.e.with(func(t *tensor.Tensor) error { return tensor.Copy(dst, t) })
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
		return fmt.Errorf("%T: nothing loaded: %s", m, l.problems[0])
	default:
		return fmt.Errorf("%T: nothing loaded: %d names do not match:\n  %s", m, n, strings.Join(l.problems, "\n  "))
	}
}

// copy fills the parameters and buffers. Everything has been checked: only a file or a Home can still fail.
func (l *loader) copy() error {
	for i, e := range l.list {
		fill := l.from[i].fill
		err := error(nil)
		if e.p != nil {
			err = overwrite(e.p, fill)
		} else {
			err = fill(e.buf)
		}
		if err != nil {
			return fmt.Errorf("%s: %w: %d of %d tensors had been replaced before it, and some of its own elements may have been", e.name, err, i, len(l.list))
		}
	}
	return nil
}

// overwrite has fill write the value of p, wherever p lives.
func overwrite(p *autograd.Param, fill func(*tensor.Tensor) error) error {
	w, err := p.Fetch()
	if err != nil {
		return err
	}
	defer w.Release()
	if err := fill(&w); err != nil {
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

func specOf(e Entry) string {
	if !e.away() && (e.Tensor == nil || e.Tensor.Empty()) {
		return "(no tensor)"
	}
	return e.Spec().String()
}
