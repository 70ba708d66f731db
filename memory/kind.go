package memory

import "fmt"

// Kind says what the bytes of a buffer are for. Peaks are split by kind, because what brings a peak down depends on
// what it is made of: activations are recomputed or offloaded, optimizer state is stored in fewer bits.
type Kind uint8

const (
	Param      Kind = iota // a parameter
	Grad                   // the gradient of a parameter
	OptState               // moments and other state of an optimizer
	Activation             // a result of forward that backward will read
	Temporary              // a result that nobody will read after its scope, and gradients on their way back
	Scratch                // the work area of one kernel call
	Input                  // batches and other tensors that came from outside
	Staging                // rings that data passes through on its way to or from a store
	CastCopy               // a tensor rounded to another dtype for one op
	Other                  // what a user or a module keeps: running statistics, averages, caches
)

// NumKinds is the number of kinds: arrays over Kind have this length.
const NumKinds = int(Other) + 1

var kindNames = [NumKinds]string{"param", "grad", "optstate", "activation", "temporary", "scratch", "input", "staging", "castcopy", "other"}

// Kinds returns all kinds in their order.
func Kinds() []Kind {
	ks := make([]Kind, NumKinds)
	for i := range ks {
		ks[i] = Kind(i)
	}
	return ks
}

// String returns the name in lower case: "param", "optstate".
func (k Kind) String() string {
	if !k.valid() {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

func (k Kind) valid() bool { return int(k) < NumKinds }
