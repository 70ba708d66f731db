package offload

import (
	"fmt"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Tier is where bytes rest.
type Tier uint8

const (
	// Keep leaves an activation or an optimizer's state on the device.
	Keep Tier = iota
	// Host is the store's second device.
	Host
	// Disk is the store's files.
	Disk
)

var tierNames = [...]string{"keep", "host", "disk"}

// String returns the name in lower case.
func (t Tier) String() string {
	if int(t) >= len(tierNames) {
		return fmt.Sprintf("tier(%d)", uint8(t))
	}
	return tierNames[t]
}

// Role is what bytes are to the training.
type Role uint8

const (
	Activation Role = iota // saved between forward and backward
	Param                  // a parameter's value, in its home
	Grad                   // its gradient
	State                  // a tensor of an optimizer's state
)

// roleNames are also the names of the files.
var roleNames = [...]string{"activations", "parameters", "gradients", "state"}

// String returns the name that the role's file has: "activations".
func (r Role) String() string {
	if int(r) >= len(roleNames) {
		return fmt.Sprintf("role(%d)", uint8(r))
	}
	return roleNames[r]
}

// Item is one storage that the store is asked to take.
type Item struct {
	Role Role
	Name string      // of the parameter or the state; for an activation, the scope that saved it
	Op   string      // for an activation, the op that saved it
	Kind memory.Kind // of the buffer on the device
	Spec tensor.Spec // of an activation, flat
}

// Config says what Open makes.
type Config struct {
	// Device is the session's device. The ring is taken from it. Required.
	Device *memory.Device

	// Tier is where bytes go: Host or Disk. Required.
	Tier Tier

	// MinBytes is the least size that is worth moving: smaller activations and moments stay on the device. Parameters
	// and gradients always move, since SetHome is called for each. 0: 64 KiB; 1: everything moves.
	MinBytes int64

	// Place chooses the tier of each storage instead of Tier and MinBytes. Activations and moments may be kept. nil: all
	// go to Tier, except small ones and activations of kind Input, which their owner holds anyway.
	Place func(Item) Tier

	// Dir is the existing folder in which the store makes its own. Default: the system's folder for temporary files,
	// which on some systems is memory. A process that is killed leaves its folder, thimble-offload-PID-*, behind: empty,
	// except on Windows, where an open file keeps its name.
	Dir string

	// BlockBytes and Blocks are the ring: Blocks pieces of BlockBytes each, a multiple of 4096, plus 4096 to align them.
	// Defaults: 8 of 1 MiB. A store that cannot use Disk takes none.
	BlockBytes int64
	Blocks     int

	// Ahead is how many blocks of the ring are to hold what will be asked for next. 0: half of Blocks; negative:
	// nothing is read ahead.
	Ahead int

	// Workers is how many goroutines read and write. 0: 4.
	Workers int

	// HostLimit bounds the host device in bytes; 0: no limit.
	HostLimit int64

	// Lock keeps the host device's pages in RAM (mlock). Where the system's limit forbids it the store works all the
	// same, and Stats.LockErr says why.
	Lock bool

	// Files stands in for the operating system's files. nil: they.
	Files Files

	// Trace is called after every transfer and wait, on the session's goroutine. nil: nobody.
	Trace func(Transfer)
}

const (
	page          = 4096 // what offsets, sizes and addresses of direct transfers are multiples of
	defaultBlock  = 1 << 20
	defaultBlocks = 8
	defaultMin    = 64 << 10
)

// fill checks c and puts defaults in.
func (c *Config) fill() error {
	switch {
	case c.Device == nil:
		return fmt.Errorf("Config.Device is nil: want the session's device")
	case c.Device.Forked():
		return fmt.Errorf("within a dry run, which keeps nothing: open the store before Plan")
	case c.Tier != Host && c.Tier != Disk:
		return fmt.Errorf("Config.Tier is %s: want Host or Disk", c.Tier)
	case c.BlockBytes < 0 || c.BlockBytes%page != 0:
		return fmt.Errorf("Config.BlockBytes is %d: want a multiple of %d, or 0 for %d", c.BlockBytes, page, defaultBlock)
	case c.Blocks < 0 || c.Blocks == 1:
		return fmt.Errorf("Config.Blocks is %d: want 2 or more, or 0 for %d", c.Blocks, defaultBlocks)
	case c.MinBytes < 0:
		return fmt.Errorf("Config.MinBytes is %d: want 1 or more, or 0 for %d", c.MinBytes, defaultMin)
	case c.Workers < 0:
		return fmt.Errorf("Config.Workers is %d: want 1 or more, or 0 for 4", c.Workers)
	case c.HostLimit < 0:
		return fmt.Errorf("Config.HostLimit is %d bytes: want 0 (no limit) or more", c.HostLimit)
	}
	c.BlockBytes = or(c.BlockBytes, defaultBlock)
	c.Blocks = or(c.Blocks, defaultBlocks)
	c.MinBytes = or(c.MinBytes, defaultMin)
	c.Workers = or(c.Workers, 4)
	c.Ahead = or(c.Ahead, c.Blocks/2)
	if c.Ahead >= c.Blocks {
		return fmt.Errorf("Config.Ahead is %d: want less than Blocks, which is %d", c.Ahead, c.Blocks)
	}
	if c.Files == nil {
		c.Files = systemFiles{}
	}
	return nil
}

// or is x, or y if x is 0.
func or[T int | int64](x, y T) T {
	if x == 0 {
		return y
	}
	return x
}

// place is where it goes.
func (c *Config) place(it Item) (Tier, error) {
	keeps := it.Role == Activation || it.Role == State
	if c.Place != nil {
		t := c.Place(it)
		if t > Disk || t == Keep && !keeps {
			return 0, fmt.Errorf("offload: Config.Place put %s of the %s on %s: want Host or Disk", it.Name, it.Role, t)
		}
		return t, nil
	}
	if keeps && it.Spec.Bytes() < c.MinBytes || it.Role == Activation && it.Kind == memory.Input {
		return Keep, nil
	}
	return c.Tier, nil
}
