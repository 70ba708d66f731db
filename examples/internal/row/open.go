package row

import (
	"errors"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Cleanup is what a run gives back when it ends, however it ends.
type Cleanup []func() error

// Add notes what to do, before all that was noted earlier.
func (c *Cleanup) Add(f func() error) { *c = append(*c, f) }

// Run does it, once, and joins its errors to err. It is meant to be deferred. What is still alive on a device then is a leak,
// and an error.
func (c *Cleanup) Run(err *error) {
	list := *c
	*c = nil
	for _, f := range slices.Backward(list) {
		*err = errors.Join(*err, f())
	}
}

// Open makes a device and a session on it, to be closed by end.
func Open(device memory.Config, c autograd.Config, end *Cleanup) (dev *memory.Device, sess *autograd.Session, err error) {
	if dev, err = memory.NewDevice(device); err != nil {
		return nil, nil, err
	}
	end.Add(dev.Close)
	c.Device = dev
	if sess, err = autograd.New(c); err != nil {
		return nil, nil, err
	}
	end.Add(sess.Close)
	return dev, sess, nil
}

// Input makes a tensor for inputs or targets, to be released by end.
func Input(dev *memory.Device, s tensor.Spec, end *Cleanup) (*tensor.Tensor, error) {
	t, err := tensor.New(dev, memory.Input, memory.Site{Op: "batch"}, s)
	if err == nil {
		end.Add(func() error { t.Release(); return nil })
	}
	return t, err
}
