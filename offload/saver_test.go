package offload_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/offload"
)

// variant is one way to keep activations.
type variant struct {
	name string
	cfg  offload.Config
}

func variants() []variant {
	mixed := func(it offload.Item) offload.Tier {
		switch {
		case it.Role == offload.Activation && it.Kind == memory.Input:
			return offload.Keep
		case it.Spec.Elems()%3 == 0:
			return offload.Host
		}
		return offload.Disk
	}
	slow := func() *faulty { return &faulty{delay: 300 * time.Microsecond} }
	return []variant{
		{"host", offload.Config{Tier: offload.Host}},
		{"disk", offload.Config{Tier: offload.Disk, Files: offload.SystemFiles()}},
		{"disk without read-ahead", offload.Config{Tier: offload.Disk, Ahead: -1}},
		{"disk, two blocks, one worker", offload.Config{Tier: offload.Disk, Blocks: 2, Workers: 1}},
		{"disk with delays", offload.Config{Tier: offload.Disk, Blocks: 5, Workers: 3, Files: slow()}},
		{"mixed with delays", offload.Config{Tier: offload.Disk, Place: mixed, Files: slow()}},
	}
}

// TestActivations: a training whose activations leave the device is the same to the bit (N1), dry run = real run whatever
// the copier's delays (M3), and nothing is left (M2).
func TestActivations(t *testing.T) {
	plain := newRig(t, false)
	defer plain.close()
	plain.adamw()
	plain.ok(6)
	base := plain.dev.Stats()
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			r := newRig(t, false)
			defer r.close()
			r.adamw()
			r.store = r.open(v.cfg)
			live := r.dev.Stats().Live
			for range 3 {
				plan := plantest.Compare(t, r.sess, r.step)
				require.Equal(t, live, r.dev.Stats().Live)
				require.Less(t, plan.Peak()-r.store.Stats().Staging, base.Peak)
			}
			r.same(plain, v.name)
			st := r.store.Stats()
			require.Zero(t, st.Host+st.Disk)
			require.Positive(t, st.HostPeak+st.DiskPeak)
		})
	}
}

// TestActivationsLeave: what is in the store is not on the device, and the peak falls by exactly what the dry run says.
func TestActivationsLeave(t *testing.T) {
	r := newRig(t, false)
	defer r.close()
	r.adamw()
	peak := func() int64 {
		plan, err := r.sess.Plan(r.step, autograd.PlanConfig{Steps: 1})
		require.NoError(t, err)
		r.dev.ResetPeak()
		r.ok(1)
		require.Equal(t, plan.Peak(), r.dev.Stats().Peak)
		return plan.Peak()
	}
	all := peak()
	r.store = r.open(offload.Config{Tier: offload.Disk, BlockBytes: 4096, Blocks: 2, MinBytes: 4096})
	ring := r.store.Stats().Staging
	require.EqualValues(t, 3*4096, ring)
	require.Equal(t, ring, r.dev.Stats().LiveByKind[memory.Staging])
	some := peak() - ring
	require.NoError(t, r.store.Close())
	r.store = r.open(offload.Config{Tier: offload.Disk, BlockBytes: 4096, Blocks: 2, MinBytes: 1})
	none := peak() - ring
	require.Less(t, some, all)
	require.Less(t, none, some)
	r.ok(1)

	var saved int64
	require.NoError(t, r.sess.Step(context.Background(), func(s *autograd.Scope) error {
		loss := r.model.Loss(s.WithSaver(r.store), s.Input(r.x), s.Input(r.y))
		for _, e := range autograd.Saved(loss) {
			if e.Where == autograd.InSaver {
				saved += e.Bytes
			} else if e.Where == autograd.InMemory {
				require.Equal(t, r.x.Spec().DType, e.Spec.DType, "%v: only inputs stay", e)
			}
		}
		require.Less(t, r.dev.Stats().LiveByKind[memory.Activation], int64(256))
		return nil
	}))
	require.Positive(t, saved)
	require.GreaterOrEqual(t, r.store.Stats().DiskPeak, saved)
	require.Less(t, r.store.Stats().DiskPeak, 2*saved+1<<20)
}

// TestActivationFaults: every n-th transfer fails, is short, flips a bit, or finds the file truncated. Each time the step
// says so and names the file, live bytes are what they were, no parameter has moved, and the next step is that of a twin.
func TestActivationFaults(t *testing.T) {
	f := &faulty{}
	r, twin := newRig(t, false), newRig(t, false)
	defer r.close()
	defer twin.close()
	r.adamw()
	twin.adamw()
	r.store = r.open(offload.Config{Tier: offload.Disk, Files: f, BlockBytes: 8192, MinBytes: 1024})
	live := r.dev.Stats().Live
	for _, c := range []struct {
		kind  fault
		write bool
		text  string
	}{
		{fails, false, "injected"}, {short, false, "unexpected EOF"}, {flips, false, "checksum"}, {truncates, false, "unexpected EOF"},
		{fails, true, "injected"}, {short, true, "short write"}, {flips, true, "checksum"},
	} {
		failed := 0
		for n := 1; n < 400; n += 3 {
			before := r.values()
			f.arm(c.kind, c.write, n, false)
			err := r.run()
			hits := f.disarm()
			if hits == 0 {
				require.NoError(t, err)
				require.Greater(t, n, 15, "a step has more transfers")
				twin.ok(1)
				break
			}
			if err == nil { // the fault was in a block that nobody asked for again, or that was read ahead and given up
				twin.ok(1)
				continue
			}
			failed++
			require.ErrorContains(t, err, c.text)
			require.ErrorContains(t, err, r.store.Folder())
			require.Equal(t, live, r.dev.Stats().Live)
			require.Zero(t, r.store.Stats().Disk)
			require.Equal(t, before, r.values(), "moved")
			for _, p := range r.params {
				p.ZeroGrad()
			}
		}
		require.Greater(t, failed, 2, "%s", c.text)
	}
	r.ok(2)
	twin.ok(2)
	r.same(twin, "after the faults")
}

// TestActivationAllocations: every allocation of a step fails once.
func TestActivationAllocations(t *testing.T) {
	r := newRig(t, false)
	defer r.close()
	r.adamw()
	r.store = r.open(offload.Config{Tier: offload.Disk, Files: &faulty{delay: 50 * time.Microsecond}})
	r.ok(1)
	plan, err := r.sess.Plan(r.step, autograd.PlanConfig{Steps: 1})
	require.NoError(t, err)
	live := r.dev.Stats().Live
	for k := 1; k <= int(plan.Steps[0].Allocs); k += 11 {
		r.dev.FailAt(int64(k))
		err := r.run()
		r.dev.FailAt(0)
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
		require.Equal(t, live, r.dev.Stats().Live)
		require.Zero(t, r.store.Stats().Disk)
	}
	r.ok(1)
}

// TestNothingGrows: goroutines and descriptors do not grow with steps and go with Close (M4).
func TestNothingGrows(t *testing.T) {
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return 0
		}
		return len(list)
	}
	runtime.GC()
	g0, d0 := runtime.NumGoroutine(), descriptors()
	r := newRig(t, false)
	r.adamw()
	dir := t.TempDir()
	r.store = r.open(offload.Config{Tier: offload.Disk, Dir: dir, Files: offload.SystemFiles()})
	r.ok(2)
	g, d := runtime.NumGoroutine(), descriptors()
	r.ok(8)
	require.Equal(t, g, runtime.NumGoroutine())
	require.Equal(t, d, descriptors())
	require.NotEmpty(t, ls(t, dir))
	r.close()
	require.Empty(t, ls(t, dir), "the files go with Close")
	require.LessOrEqual(t, runtime.NumGoroutine(), g0)
	require.LessOrEqual(t, descriptors(), d0)
}

func ls(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestTwoStoresInOneFolder: two runs with the same path do not touch each other's files.
func TestTwoStoresInOneFolder(t *testing.T) {
	dir := t.TempDir()
	var rigs []*rig
	for range 2 {
		r := newRig(t, false)
		r.adamw()
		r.store = r.open(offload.Config{Tier: offload.Disk, Dir: dir, Files: offload.SystemFiles()})
		rigs = append(rigs, r)
	}
	require.Len(t, ls(t, dir), 2)
	plain := newRig(t, false)
	defer plain.close()
	plain.adamw()
	for range 3 {
		plain.ok(1)
		for _, r := range rigs {
			r.ok(1)
		}
	}
	rigs[0].same(plain, "first")
	rigs[0].close()
	require.Len(t, ls(t, dir), 1)
	plain.ok(1)
	rigs[1].ok(1)
	rigs[1].same(plain, "second")
	rigs[1].close()
}

// TestVirtualDevice: without bytes the same events happen.
func TestVirtualDevice(t *testing.T) {
	var hashes []uint64
	for _, virtual := range []bool{false, true} {
		r := newRig(t, virtual)
		r.adamw()
		r.store = r.open(offload.Config{Tier: offload.Disk})
		r.dev.ResetPeak()
		r.ok(2)
		hashes = append(hashes, r.dev.Stats().Hash)
		require.Equal(t, virtual, r.store.Folder() == "")
		r.close()
	}
	require.Equal(t, hashes[0], hashes[1])
}

func TestClosed(t *testing.T) {
	r := newRig(t, false)
	defer r.close()
	r.adamw()
	r.store = r.open(offload.Config{Tier: offload.Disk})
	r.ok(1)
	require.NoError(t, r.store.Close())
	require.NoError(t, r.store.Close())
	require.ErrorContains(t, r.run(), "offload: the store is closed")
	err := r.sess.Step(context.Background(), func(s *autograd.Scope) error {
		st := r.open(offload.Config{Tier: offload.Disk})
		loss := r.model.Loss(s.WithSaver(st), s.Input(r.x), s.Input(r.y))
		require.NoError(t, st.Close())
		loss.Backward(s)
		return nil
	})
	require.ErrorContains(t, err, "offload: the store is closed")
}

func TestMisuse(t *testing.T) {
	dev, err := memory.NewDevice(memory.Config{Limit: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.Close()) }()
	dir := t.TempDir()
	file := dir + "/file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	readOnly := dir + "/read-only"
	require.NoError(t, os.Mkdir(readOnly, 0o500))
	for _, c := range []struct {
		cfg   offload.Config
		texts []string
	}{
		{offload.Config{}, []string{"Config.Device is nil"}},
		{offload.Config{Device: dev}, []string{"Config.Tier is keep", "want Host or Disk"}},
		{offload.Config{Device: dev, Tier: 9}, []string{"tier(9)"}},
		{offload.Config{Device: dev, Tier: offload.Disk, BlockBytes: 1000}, []string{"BlockBytes is 1000", "multiple of 4096"}},
		{offload.Config{Device: dev, Tier: offload.Disk, Blocks: 1}, []string{"Blocks is 1"}},
		{offload.Config{Device: dev, Tier: offload.Disk, Blocks: 4, Ahead: 4}, []string{"Ahead is 4", "less than Blocks"}},
		{offload.Config{Device: dev, Tier: offload.Disk, MinBytes: -1}, []string{"MinBytes is -1"}},
		{offload.Config{Device: dev, Tier: offload.Disk, Workers: -1}, []string{"Workers is -1"}},
		{offload.Config{Device: dev, Tier: offload.Host, HostLimit: -1}, []string{"HostLimit is -1"}},
		{offload.Config{Device: dev, Tier: offload.Disk}, []string{"out of memory", "ring"}},
		{offload.Config{Device: dev, Tier: offload.Disk, BlockBytes: 4096, Dir: dir + "/missing"}, []string{dir + "/missing", "want an existing folder"}},
		{offload.Config{Device: dev, Tier: offload.Disk, BlockBytes: 4096, Dir: file}, []string{file}},
		{offload.Config{Device: dev, Tier: offload.Disk, BlockBytes: 4096, Dir: readOnly}, []string{readOnly, "can be written to"}},
	} {
		if c.cfg.Dir == readOnly && os.Geteuid() == 0 {
			continue // root writes anywhere
		}
		st, err := offload.Open(c.cfg)
		require.Nil(t, st)
		require.Error(t, err, "%v", c.texts)
		for _, text := range append(c.texts, "offload: Open: ") {
			require.ErrorContains(t, err, text)
		}
		require.Zero(t, dev.Stats().Live, "%v", c.texts)
	}
	require.Equal(t, "disk", fmt.Sprint(offload.Disk))
	require.Equal(t, "role(9)", fmt.Sprint(offload.Role(9)))
	require.Equal(t, "wait", fmt.Sprint(offload.Wait))
}

// TestHostLimit: a host device that is too small says so, and the step has left nothing.
func TestHostLimit(t *testing.T) {
	r := newRig(t, false)
	defer r.close()
	r.adamw()
	r.store = r.open(offload.Config{Tier: offload.Host, HostLimit: 20 << 10})
	live := r.dev.Stats().Live
	err := r.run()
	var oom *memory.OOMError
	require.True(t, errors.As(err, &oom), "%v", err)
	require.Equal(t, "host", oom.Device)
	require.Equal(t, live, r.dev.Stats().Live)
	require.Zero(t, r.store.Stats().Host)
}

// TestPlaceAndTrace: Place sees what is saved, and every transfer is told with its times.
func TestPlaceAndTrace(t *testing.T) {
	r := newRig(t, false)
	defer r.close()
	r.adamw()
	var ops []string
	moved := map[offload.Move]int64{}
	r.store = r.open(offload.Config{
		Tier:       offload.Disk,
		BlockBytes: 4096,
		Place: func(it offload.Item) offload.Tier {
			require.Equal(t, offload.Activation, it.Role)
			require.NotEmpty(t, it.Name)
			ops = append(ops, it.Op)
			if it.Op == "linear" {
				return offload.Disk
			}
			return offload.Keep
		},
		Trace: func(tr offload.Transfer) {
			require.False(t, tr.End.Before(tr.Start))
			require.Equal(t, offload.Activation, tr.Role)
			moved[tr.Move] += tr.Bytes
		},
	})
	r.ok(1)
	require.Contains(t, ops, "linear")
	require.Contains(t, ops, "gelu_tanh")
	st := r.store.Stats()
	require.Equal(t, moved[offload.Write], st.Written)
	require.Equal(t, moved[offload.Read], st.Read)
	require.Positive(t, st.Read)
	require.Positive(t, st.Hits)
	r.store.ResetStats()
	require.Zero(t, r.store.Stats().Read)
}

// TestReadAhead: backward finds what it asks for on its way.
func TestReadAhead(t *testing.T) {
	r := newRig(t, false)
	defer r.close()
	r.adamw()
	r.store = r.open(offload.Config{Tier: offload.Disk, Blocks: 8})
	r.ok(1)
	r.store.ResetStats()
	r.ok(1)
	st := r.store.Stats()
	require.Less(t, st.Misses*10, st.Hits, "%d blocks of %d were not read ahead", st.Misses, st.Hits+st.Misses)
	require.Less(t, st.Read*10, st.Written*11, "a block is read once, or twice if two ops saved it")
}

// TestLock: the host device is locked in RAM as far as the system allows; where it does not, the store says so and works.
func TestLock(t *testing.T) {
	r := newRig(t, false)
	defer r.close()
	r.adamw()
	r.store = r.open(offload.Config{Tier: offload.Host, Lock: true})
	r.ok(2)
	st := r.store.Stats()
	require.True(t, st.Locked > 0 || st.LockErr != nil)
	if st.LockErr != nil {
		require.ErrorContains(t, st.LockErr, "memory: host: ")
		require.ErrorContains(t, st.LockErr, "could not be locked in RAM")
	}
}
