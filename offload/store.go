package offload

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/thimble-ml/thimble/memory"
)

// Store keeps bytes away from the device. It is a Saver and a Home of package autograd and a StateStore of package optim.
// Its methods are called by the goroutine of the device's session only.
type Store struct {
	cfg    Config
	dev    *memory.Device
	host   *memory.Device // nil: no part of the store can use it
	folder string         // "" : no part of the store can use files
	files  [len(roleNames)]*file
	ring   *ring
	stats  Stats
	closed bool

	onHost map[*memory.Buffer]bool
	newest *saved           // of the activations, see saver.go
	hints  []part           // of states, see state.go
	homes  map[string]*home // by parameter
	past   history          // of what homes were asked for
}

// Open makes a store. Close ends it. Errors name the field, or the folder that could not be made; if the ring does not fit
// on the device, errors.As finds the *memory.OOMError.
func Open(cfg Config) (*Store, error) {
	wrap := func(err error) error { return fmt.Errorf("offload: Open: %w", err) }
	if err := cfg.fill(); err != nil {
		return nil, wrap(err)
	}
	st := &Store{cfg: cfg, dev: cfg.Device, onHost: map[*memory.Buffer]bool{}, homes: map[string]*home{}}
	if err := st.open(); err != nil {
		return nil, wrap(errors.Join(err, st.Close()))
	}
	return st, nil
}

func (st *Store) open() (err error) {
	c := &st.cfg
	if c.Tier == Host || c.Place != nil {
		st.host, err = memory.NewDevice(memory.Config{Name: "host", Limit: c.HostLimit, Virtual: c.Device.Virtual(), Lock: c.Lock})
		if err != nil {
			return err
		}
	}
	if c.Tier != Disk && c.Place == nil {
		return nil
	}
	if err := st.openRing(); err != nil {
		return err
	}
	if c.Device.Virtual() {
		return nil
	}
	dir := c.Dir
	if dir == "" {
		dir = os.TempDir()
	}
	if st.folder, err = c.Files.Folder(dir); err != nil {
		return fmt.Errorf("no folder for files in %s: %w: want an existing folder that can be written to", dir, err)
	}
	return nil
}

// Folder is where the files are, "" if the store has none.
func (st *Store) Folder() string { return st.folder }

// Host is the host device, nil if the store has none. It belongs to the store.
func (st *Store) Host() *memory.Device { return st.host }

// Close waits for transfers, gives ring and host memory back and removes the files. What the store held is lost: close it
// after the last step. Every use after that is an error. A second Close does nothing.
func (st *Store) Close() error {
	if st.closed {
		return nil
	}
	if st.dev.Forked() {
		return errors.New("offload: Close within a dry run: return from Plan first")
	}
	if st.ring != nil {
		st.ring.close()
	}
	st.releaseHost()
	st.closed = true
	var errs []error
	if st.host != nil {
		errs = append(errs, st.host.Close())
	}
	for _, f := range st.files {
		if f != nil && f.File != nil {
			errs = append(errs, f.Close())
		}
	}
	if st.folder != "" {
		errs = append(errs, st.cfg.Files.Remove(st.folder))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("offload: Close: %w", err)
	}
	return nil
}

// usable is an error if the store is closed.
func (st *Store) usable() error {
	if st.closed {
		return errors.New("offload: the store is closed")
	}
	return nil
}

// Stats are a store's figures. Bytes at rest and their peaks depend on what was asked of the store alone; counts of
// transfers and times depend on the machine.
type Stats struct {
	Host, HostPeak int64 // bytes on the host device
	Disk, DiskPeak int64 // bytes in files, in whole pages of 4096
	Staging        int64 // bytes of the ring, on the session's device

	Written, Read int64  // bytes that went to files and came from them
	Hits, Misses  uint64 // blocks that were in the ring, or on their way to it, when they were asked for; and others

	Stall time.Duration // how long the session's goroutine waited for transfers

	Locked  int64 // bytes of the host device that cannot be paged out, if Config.Lock
	LockErr error // why others can
}

// Stats returns the figures of now.
func (st *Store) Stats() Stats {
	s := st.stats
	if st.host != nil && !st.closed {
		h := st.host.Stats()
		s.Host, s.HostPeak, s.Locked = h.Live, h.Peak, h.Locked
		s.LockErr = st.host.LockErr()
	}
	if st.ring != nil && !st.closed {
		s.Staging = st.ring.buf.Size()
	}
	return s
}

// ResetStats begins a new measurement: peaks become what is current, counts and times 0.
func (st *Store) ResetStats() {
	st.stats = Stats{Disk: st.stats.Disk, DiskPeak: st.stats.Disk}
	if st.host != nil {
		st.host.ResetPeak()
	}
}

// releaseHost gives back what lies on the host device, whoever has it.
func (st *Store) releaseHost() {
	for buf := range st.onHost {
		buf.Release()
	}
	clear(st.onHost)
}
