package nn

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// Params lists the trainable parameters of m, each once: what an optimizer takes. Frozen ones are left out. m is
// anything that holds parameters; see the package comment for what is walked, and how it is named.
func Params(m any) []*autograd.Param {
	var list []*autograd.Param
	for _, p := range NamedParams(m) {
		if !p.Frozen() {
			list = append(list, p)
		}
	}
	return list
}

// AllParams lists the parameters of m, frozen ones included, each once.
func AllParams(m any) []*autograd.Param {
	var list []*autograd.Param
	for _, p := range NamedParams(m) {
		list = append(list, p)
	}
	return list
}

// NamedParams goes through the parameters of m, frozen ones included, each once, with its path in m.
func NamedParams(m any) iter.Seq2[string, *autograd.Param] {
	return func(yield func(string, *autograd.Param) bool) {
		for _, e := range walk(m).list {
			if e.p != nil && !yield(e.name, e.p) {
				return
			}
		}
	}
}

// NamedBuffers goes through the buffers of m, each once, with its path in m: the exported fields of type *tensor.Tensor,
// such as BatchNorm's running statistics. They are part of a model's state, but nothing trains them. A tensor that is not,
// a cache for example, is in a field that is not exported or has the tag `nn:"-"`.
func NamedBuffers(m any) iter.Seq2[string, *tensor.Tensor] {
	return func(yield func(string, *tensor.Tensor) bool) {
		for _, e := range walk(m).list {
			if e.p == nil && !yield(e.name, e.buf) {
				return
			}
		}
	}
}

// NumParams is the number of elements of all parameters of m, frozen ones included, tied ones once.
func NumParams(m any) (n int64) {
	for _, p := range NamedParams(m) {
		n += int64(p.Spec().Elems())
	}
	return n
}

// ParamBytes is what the values of all parameters of m take, frozen ones included, tied ones once.
func ParamBytes(m any) (n int64) {
	for _, p := range NamedParams(m) {
		n += p.Spec().Bytes()
	}
	return n
}

// SetFrozen freezes or thaws every parameter of m, from the next operation on. Frozen ones get no gradient, and what
// only their gradient would read is not kept. Take Params after it, not before.
func SetFrozen(m any, frozen bool) {
	for _, p := range NamedParams(m) {
		p.SetFrozen(frozen)
	}
}

// walker finds parameters and buffers by reflection.
type walker struct {
	list  []named
	index map[string]int    // by name, in list
	seen  map[object]string // where something with an identity was first reached
	alias map[string]string // the other paths to it, and its first
}

// named is a parameter, or a buffer.
type named struct {
	name string
	p    *autograd.Param
	buf  *tensor.Tensor
}

// object is the identity of a pointer, map or slice. A struct and its first field have one address but two types. at is
// an unsafe.Pointer, which keeps what Unwrap made on the fly from being collected and its address from coming again.
type object struct {
	t    reflect.Type
	at   any
	size int // of a slice
}

var (
	paramType   = reflect.TypeFor[*autograd.Param]()
	bufferType  = reflect.TypeFor[*tensor.Tensor]()
	wrapperType = reflect.TypeFor[Transparent]()
)

// walk lists the parameters and buffers of m, and tells the parameters their names.
func walk(m any) *walker {
	w := &walker{index: map[string]int{}, seen: map[object]string{}, alias: map[string]string{}}
	w.visit(reflect.ValueOf(m), "")
	for _, e := range w.list {
		if e.p != nil {
			rename(e.p, e.name)
		}
	}
	return w
}

func (w *walker) visit(v reflect.Value, path string) {
	if !v.IsValid() || v.Type() == bufferType || !mayHold(v.Type()) || w.again(v, path) {
		return
	}
	if v.Type() == paramType && v.CanInterface() {
		w.param(v, path)
		return
	}
	if t := transparent(v); t != nil {
		w.visit(reflect.ValueOf(t.Unwrap()), path)
		return
	}
	w.inside(v, path)
}

// transparent gives v as the wrapper that it is, or nil. A struct that embeds one has its Unwrap too, but also fields of
// its own: it is walked like any other.
func transparent(v reflect.Value) Transparent {
	if v.Kind() == reflect.Struct && v.CanAddr() {
		v = v.Addr()
	}
	if v.Kind() == reflect.Interface || !v.CanInterface() || embedsWrapper(v.Type()) {
		return nil
	}
	w, _ := v.Interface().(Transparent)
	return w
}

func embedsWrapper(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && (f.Type.Implements(wrapperType) || reflect.PointerTo(f.Type).Implements(wrapperType)) {
			return true
		}
	}
	return false
}

// inside visits what v consists of.
func (w *walker) inside(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		w.visit(v.Elem(), path)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			w.visit(v.Index(i), join(path, strconv.Itoa(i)))
		}
	case reflect.Map:
		for _, k := range sortedKeys(v) {
			w.visit(v.MapIndex(k), join(path, fmt.Sprint(k)))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, ok := fieldName(f)
			switch {
			case !ok:
			case f.Type == bufferType && !f.Anonymous:
				w.buffer(v.Field(i), join(path, name))
			default:
				w.visit(v.Field(i), join(path, name))
			}
		}
	}
}

// again tells whether v leads nowhere new: it is nil, or was reached before. The first path to it is noted, or this one
// as another name for the first.
func (w *walker) again(v reflect.Value, path string) bool {
	switch v.Kind() {
	case reflect.Interface:
		return v.IsNil()
	case reflect.Pointer, reflect.Map, reflect.Slice:
	default:
		return false
	}
	if v.IsNil() {
		return true
	}
	o := identity(v)
	first, ok := w.seen[o]
	switch {
	case !ok:
		w.seen[o] = path
	case first != path:
		w.alias[path] = first
	}
	return ok
}

// identity of a pointer, map or slice.
func identity(v reflect.Value) object {
	o := object{t: v.Type(), at: v.UnsafePointer()}
	if v.Kind() == reflect.Slice {
		o.size = v.Len()
	}
	return o
}

// param lists the parameter v.
func (w *walker) param(v reflect.Value, path string) {
	p := v.Interface().(*autograd.Param)
	if path == "" { // m is the parameter itself
		path = p.Name()
	}
	w.add(v, path, named{p: p})
}

// buffer lists the buffer v.
func (w *walker) buffer(v reflect.Value, path string) {
	if v.CanInterface() && !w.again(v, path) {
		w.add(v, path, named{buf: v.Interface().(*tensor.Tensor)})
	}
}

// add lists v, which is e, under its path, or what is free behind it.
func (w *walker) add(v reflect.Value, path string, e named) {
	e.name = path
	for n := 2; w.taken(e.name); n++ {
		e.name = fmt.Sprintf("%s_%d", path, n)
	}
	w.seen[identity(v)] = e.name
	w.index[e.name] = len(w.list)
	w.list = append(w.list, e)
}

func (w *walker) taken(name string) bool {
	_, ok := w.index[name]
	return ok
}

// mayHold tells whether a value of type t may lead to a parameter: numbers, strings, functions and slices of them do not.
func mayHold(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return composed(t.Elem().Kind())
	}
	return composed(t.Kind())
}

func composed(k reflect.Kind) bool {
	switch k {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct, reflect.Interface:
		return true
	}
	return false
}

// sortedKeys is the keys of a map in order; none if they are neither strings nor integers.
func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	k := m.Type().Key()
	switch {
	case k.Kind() == reflect.String:
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	case reflect.Zero(k).CanInt():
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.Int(), b.Int()) })
	case reflect.Zero(k).CanUint():
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.Uint(), b.Uint()) })
	default:
		return nil
	}
	return keys
}
