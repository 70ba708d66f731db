package autograd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/thimble-ml/thimble/tensor"
)

// Error is what a misused or failing operation panics with inside a step, and what Step and Plan return. errors.As finds
// the cause through it, a *memory.OOMError for instance.
type Error struct {
	Op    string        // the operation, by its rule's name
	Scope string        // path of the scope it ran in, "" for the step's own
	In    []tensor.Spec // specs of all its inputs
	Names []string      // of those inputs that are parameters; "" for others, nil if there are none
	Err   error         // what was given and what was wanted
}

// Error gives scope, op, specs and cause in one line, parameters by name:
// "autograd: mlp/0: linear[float32[4 3] net.0.weight:float32[5 2]]: want ...".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("autograd: ")
	if e.Scope != "" {
		b.WriteString(e.Scope)
		b.WriteString(": ")
	}
	b.WriteString(e.Op)
	if len(e.In) > 0 {
		b.WriteByte('[')
		for i, s := range e.In {
			if i > 0 {
				b.WriteByte(' ')
			}
			if i < len(e.Names) && e.Names[i] != "" {
				b.WriteString(e.Names[i])
				b.WriteByte(':')
			}
			b.WriteString(s.String())
		}
		b.WriteByte(']')
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// errBusy is the cause when a session is entered twice at once.
var errBusy = errors.New("the session is in use: a session belongs to one goroutine, and kernels must not call back into it; give each goroutine its own session")

// raise panics with err as an *Error; one that is an *Error already goes on unchanged.
func raise(op, scope string, in []tensor.Spec, err error) {
	var e *Error
	if errors.As(err, &e) {
		panic(e)
	}
	panic(&Error{Op: op, Scope: scope, In: append([]tensor.Spec(nil), in...), Err: err})
}

func raisef(op, scope string, format string, args ...any) {
	raise(op, scope, nil, fmt.Errorf(format, args...))
}
