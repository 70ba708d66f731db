//go:build amd64 && !purego

package kernel

import "unsafe"

//go:generate go -C _gen run ./optim -out ../optim_amd64.s

// The optimizers' updates with AVX2: one pass, with the operations of the plain versions in their order, so that bits are
// the same. Scalars lie in the order that each Fast function's caller gives them in. Pointers that are optional are nil.

//go:noescape
func adamFloats(n int, p, d, m, v, top *float32, scalars *[9]float32, l2 bool)

//go:noescape
func sgdFloats(n int, p, d *float32, scalars *[3]float32, decays bool)

//go:noescape
func sgdMomentumFloats(n int, p, d, buf *float32, scalars *[5]float32, decays, nesterov bool)

//go:noescape
func adagradFloats(n int, p, d, sum *float32, scalars *[4]float32, decays bool)

//go:noescape
func lionFloats(n int, p, d, m *float32, scalars *[7]float32)

//go:noescape
func rmspropFloats(n int, p, d, v, avg, buf *float32, scalars *[7]float32, decays bool)

// updates checks the operands of an update for elements of g and touches them, if the update is one for AVX2. State that
// is optional may be nil.
func updates[T Float](p, g []T, state ...[]T) bool {
	if !runsAVX2[T](len(g)) {
		return false
	}
	_ = p[:len(g)]
	for _, s := range state {
		if s != nil {
			_ = s[:len(g)]
		}
	}
	if raceEnabled {
		touchRead(g)
		touchWrite(p[:len(g)])
		for _, s := range state {
			touchWrite(s[:min(len(s), len(g))])
		}
	}
	return true
}

// adamFast is the loop of AdamStep. With l2 its last scalar takes the place of shrink.
func adamFast[T Float](p, g, m, v, top []T, scalars [9]T, l2 T) bool {
	if !updates(p, g, m, v, top) {
		return false
	}
	if l2 != 0 {
		scalars[8] = l2
	}
	adamFloats(len(g), begin(p), begin(g), begin(m), begin(v), begin(top), (*[9]float32)(unsafe.Pointer(&scalars)), l2 != 0)
	return true
}

// sgdFast is the loop of SGDStep.
func sgdFast[T Float](p, g []T, scalars [3]T) bool {
	if !updates(p, g) {
		return false
	}
	sgdFloats(len(g), begin(p), begin(g), (*[3]float32)(unsafe.Pointer(&scalars)), scalars[2] != 0)
	return true
}

// sgdMomentumFast is the loop of sgdMomentum after the first step.
func sgdMomentumFast[T Float](p, g, buf []T, scalars [5]T, nesterov bool) bool {
	if !updates(p, g, buf) {
		return false
	}
	sgdMomentumFloats(len(g), begin(p), begin(g), begin(buf), (*[5]float32)(unsafe.Pointer(&scalars)), scalars[2] != 0, nesterov)
	return true
}

// adagradFast is the loop of AdagradStep.
func adagradFast[T Float](p, g, sum []T, scalars [4]T) bool {
	if !updates(p, g, sum) {
		return false
	}
	adagradFloats(len(g), begin(p), begin(g), begin(sum), (*[4]float32)(unsafe.Pointer(&scalars)), scalars[2] != 0)
	return true
}

// lionFast is the loop of LionStep.
func lionFast[T Float](p, g, m []T, scalars [7]T) bool {
	if !updates(p, g, m) {
		return false
	}
	lionFloats(len(g), begin(p), begin(g), begin(m), (*[7]float32)(unsafe.Pointer(&scalars)))
	return true
}

// rmspropFast is the loop of RMSpropStep.
func rmspropFast[T Float](p, g, v, avg, buf []T, scalars [7]T) bool {
	if !updates(p, g, v, avg, buf) {
		return false
	}
	rmspropFloats(len(g), begin(p), begin(g), begin(v), begin(avg), begin(buf), (*[7]float32)(unsafe.Pointer(&scalars)), scalars[2] != 0)
	return true
}
