package optim

import "github.com/thimble-ml/thimble/autograd"

// Optimizer is what windows, loss scalers and training loops ask of an optimizer. SGD and AdamW are two.
type Optimizer interface {
	// Step updates every parameter that has a gradient, wholly or not at all, and leaves the gradients as they are. It
	// refuses a gradient that is stale (see autograd.Param.Stale).
	Step(s *autograd.Scope) error
	// ZeroGrad gives the gradients' buffers back and ends their staleness. Call it after Step, once an update, not
	// before each Backward.
	ZeroGrad(s *autograd.Scope)
	// Params are all parameters in group order. The slice must not be modified.
	Params() []*autograd.Param
}

// Scheduled is what a schedule asks of an optimizer: a learning rate for each group.
type Scheduled interface {
	Session() *autograd.Session
	// Groups is the number of groups, 1 unless the optimizer was made from several.
	Groups() int
	// LR is the learning rate of a group.
	LR(group int) float64
	// SetLR changes it, from the next Step on; 0 is legal and stops the group, its decay included. Within a step that
	// fails, and in a dry run, the change is put back.
	SetLR(group int, lr float64) error
}
