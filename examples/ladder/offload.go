package main

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/optim"
)

// away is what a rung keeps on disk while nobody needs it.
type away struct {
	activations bool
	state       bool // the optimizer's
	params      bool // parameters and their gradients
}

// openStore opens the rung's store, if it has one. Its blocks are as small as the ladder's models.
func (j *job) openStore() (err error) {
	if j.rung.away == (away{}) {
		return nil
	}
	j.store, err = offload.Open(offload.Config{Device: j.dev, Tier: offload.Disk, BlockBytes: 32 << 10, MinBytes: 4 << 10})
	if err == nil {
		j.ending.Add(j.store.Close)
	}
	return err
}

// buildAway builds the model, straight into the store if the rung keeps parameters there.
func (j *job) buildAway() (model any, forward nn.Forward, err error) {
	var home autograd.Home
	if j.rung.away.params {
		home = j.store
	}
	err = j.sess.BuildIn(home, func() error {
		model, forward, err = j.build(j.sess, j.rung.dtype)
		return err
	})
	return model, forward, err
}

// stateStore is where the optimizer's state is; nil: on the device.
func (j *job) stateStore() optim.StateStore {
	if j.rung.away.state {
		return j.store
	}
	return nil
}

// saver gives a scope that sends activations away, if the rung does so.
func (j *job) saver(s *autograd.Scope) *autograd.Scope {
	if j.rung.away.activations {
		return s.WithSaver(j.store)
	}
	return s
}
