package offload

// access is one time that a value or a gradient was asked for.
type access struct {
	h    *home
	grad bool
}

// extent is where the bytes are now; nil if there are none.
func (a access) extent() *extent {
	if a.grad {
		return a.h.grad
	}
	return a.h.value
}

const longestHistory = 1 << 16

// history is the order in which values and gradients were asked for. Training repeats itself step after step, so what came
// after the same two accesses last time will come again: two, because backward asks for the same parameters as forward, in
// the other order.
type history struct {
	list []access
	ends map[[2]access]int // where a pair ended last
	then int               // where the present pair ended the time before; -1: never
}

// add notes an access.
func (h *history) add(a access) {
	if len(h.list) == longestHistory || h.ends == nil {
		h.list, h.ends = h.list[:0], map[[2]access]int{}
	}
	pair := [2]access{{}, a}
	if n := len(h.list); n > 0 {
		pair[0] = h.list[n-1]
	}
	h.then = -1
	if at, ok := h.ends[pair]; ok {
		h.then = at
	}
	h.ends[pair] = len(h.list)
	h.list = append(h.list, a)
}

// next is what is likely to be asked for after the access that was added last, in order.
func (h *history) next(yield func(part) bool) {
	if h.then < 0 {
		return
	}
	for _, a := range h.list[h.then+1:] {
		if e := a.extent(); e != nil && !yield(part{e, 0, e.n}) {
			return
		}
	}
}
