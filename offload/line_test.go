package offload_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/tensor"
)

// pagewise are files of which single pages can go wrong, and that want ranges not to overlap.
type pagewise struct {
	faulty
	mu      sync.Mutex
	bad     map[int64]bool // pages that cannot be moved
	busy    map[string]map[int64]bool
	overlap bool
	reads   int
	writes  int
}

func newPagewise() *pagewise {
	return &pagewise{bad: map[int64]bool{}, busy: map[string]map[int64]bool{}}
}

func (f *pagewise) Create(path string) (offload.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[path] = map[int64]bool{}
	return &pagewiseFile{f, file}, err
}

type pagewiseFile struct {
	f *pagewise
	*os.File
}

// spoil makes a page bad, or good again.
func (f *pagewise) spoil(at int64, bad bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bad[at] = bad
}

// since gives the transfers since the last time, and whether any two have touched one page at a time.
func (f *pagewise) since() (reads, writes int, overlap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	reads, writes, f.reads, f.writes = f.reads, f.writes, 0, 0
	return reads, writes, f.overlap
}

var errPage = errors.New("a page is bad (injected)")

// during runs a transfer of n bytes at off.
func (f *pagewiseFile) during(n int, off int64, count *int, move func() (int, error)) (int, error) {
	each := func(do func(at int64)) {
		f.f.mu.Lock()
		defer f.f.mu.Unlock()
		for at := off; at < off+int64(n); at += 4096 {
			do(at)
		}
	}
	bad := false
	each(func(at int64) {
		bad = bad || f.f.bad[at]
		f.f.overlap = f.f.overlap || f.f.busy[f.Name()][at]
		f.f.busy[f.Name()][at] = true
	})
	defer each(func(at int64) { delete(f.f.busy[f.Name()], at) })
	f.f.mu.Lock()
	*count++
	f.f.mu.Unlock()
	if bad {
		return 0, errPage
	}
	return move()
}

func (f *pagewiseFile) ReadAt(b []byte, off int64) (int, error) {
	return f.during(len(b), off, &f.f.reads, func() (int, error) { return f.File.ReadAt(b, off) })
}

func (f *pagewiseFile) WriteAt(b []byte, off int64) (int, error) {
	return f.during(len(b), off, &f.f.writes, func() (int, error) { return f.File.WriteAt(b, off) })
}

// shelf is a store and tensors to put into it.
type shelf struct {
	t   *testing.T
	dev *memory.Device
	st  *offload.Store
}

func newShelf(t *testing.T, c offload.Config) *shelf {
	t.Helper()
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 26})
	require.NoError(t, err)
	c.Device, c.Tier, c.Dir = dev, offload.Disk, t.TempDir()
	st, err := offload.Open(c)
	require.NoError(t, err)
	return &shelf{t, dev, st}
}

func (s *shelf) close() {
	s.t.Helper()
	require.NoError(s.t, s.st.Close())
	require.NoError(s.t, s.dev.Close())
}

// with makes a tensor of n elements that all are v.
func (s *shelf) with(n int, v float32, use func(tensor.Tensor) error) error {
	x, err := tensor.From(s.dev, memory.Param, memory.Site{}, slices.Repeat([]float32{v}, n), n)
	require.NoError(s.t, err)
	defer x.Release()
	return use(*x)
}

func (s *shelf) put(i, n int, v float32) error {
	return s.with(n, v, func(x tensor.Tensor) error { return s.st.Put(fmt.Sprint(i), x) })
}

func (s *shelf) putGrad(i, n int, v float32) error {
	return s.with(n, v, func(x tensor.Tensor) error { return s.st.PutGrad(fmt.Sprint(i), x) })
}

// is tells whether what came has n elements v; an error is passed on.
func (s *shelf) is(x tensor.Tensor, err error, n int, v float32) error {
	if err != nil {
		return err
	}
	defer x.Release()
	require.Equal(s.t, slices.Repeat([]float32{v}, n), tensor.Data[float32](&x))
	return nil
}

func (s *shelf) grad(i, n int, v float32) error {
	x, err := s.st.Grad(s.dev, fmt.Sprint(i), tensor.Of(tensor.Float32, n))
	return s.is(x, err, n, v)
}

func (s *shelf) value(i, n int, v float32) error {
	x, err := s.st.Fetch(s.dev, fmt.Sprint(i), tensor.Of(tensor.Float32, n))
	return s.is(x, err, n, v)
}

// TestLines: small tensors move with their neighbours, 8 pages at a time here.
func TestLines(t *testing.T) {
	const n, size = 64, 1000 // of a page each
	f := newPagewise()
	s := newShelf(t, offload.Config{Files: f, BlockBytes: 32 << 10, Blocks: 4})
	defer s.close()
	for i := range n {
		require.NoError(t, s.put(i, size, float32(i)))
	}
	_, writes, _ := f.since()
	require.Equal(t, n, writes, "a value is in place when Put returns")
	for i := range n {
		require.NoError(t, s.putGrad(i, size, float32(-i)))
	}
	for i := range n {
		require.NoError(t, s.grad(i, size, float32(-i)))
	}
	reads, writes, _ := f.since()
	require.Less(t, reads, n/8+2)
	require.LessOrEqual(t, writes, n/8)
	for i := range n {
		require.NoError(t, s.value(i, size, float32(i)))
	}
	reads, _, overlap := f.since()
	require.Less(t, reads, n/8+2)
	require.False(t, overlap)
}

// TestBadNeighbour: a page that cannot be read is told to whom it belongs to, and to nobody else; one that cannot be written,
// to all that were on the way with it, until they are written again.
func TestBadNeighbour(t *testing.T) {
	const n, size = 48, 1000
	f := newPagewise()
	s := newShelf(t, offload.Config{Files: f, BlockBytes: 32 << 10, Blocks: 3})
	defer s.close()
	for i := range n {
		require.NoError(t, s.put(i, size, float32(i)))
	}
	for range 2 { // nothing of the values stays in the ring
		for i := range n {
			require.NoError(t, s.putGrad(i, size, 7))
		}
	}
	f.spoil(5*4096, true)
	for i := range n {
		if err := s.value(i, size, float32(i)); i == 5 {
			require.ErrorIs(t, err, errPage)
			require.ErrorContains(t, err, "read 4096 bytes at 20480 of ")
		} else {
			require.NoError(t, err, i)
		}
	}
	again := func(from int) { // gradients of 8 pages
		for i := from; i < from+8; i++ {
			require.NoError(t, s.putGrad(i, size, 8))
		}
	}
	for from := 0; from < n; from += 8 {
		again(from)
	}
	for i := range n {
		if err := s.grad(i, size, 8); i < 8 {
			require.ErrorIs(t, err, errPage, i)
		} else {
			require.NoError(t, err, i)
		}
	}
	f.spoil(5*4096, false)
	again(0)
	for i := range n {
		require.NoError(t, s.grad(i, size, 8), i)
		require.NoError(t, s.value(i, size, float32(i)), i)
	}
}

// TestShelf: whatever is put, changed, asked for and given up in whatever order is what was put last; no transfer touches what
// another one moves.
func TestShelf(t *testing.T) {
	rounds := 1500
	if testing.Short() {
		rounds = 300
	}
	for seed, c := range []offload.Config{
		{BlockBytes: 32 << 10, Blocks: 8}, {BlockBytes: 16 << 10, Blocks: 2}, {BlockBytes: 8 << 10, Blocks: 3, Ahead: -1}, {BlockBytes: 256 << 10, Blocks: 4, Workers: 1},
	} {
		f := newPagewise()
		f.delay = 50 * time.Microsecond
		c.Files, c.MinBytes = f, 1
		s := newShelf(t, c)
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		const n = 40
		size := func(i int) int { return 1 + i*i*i%9000 }
		var values, grads [n]float32
		slot, err := s.st.Open("state", tensor.Of(tensor.Float32, 20000))
		require.NoError(t, err)
		state := make([]float32, 20000)
		require.NoError(t, s.with(len(state), 0, func(x tensor.Tensor) error { return slot.Write(x, 0) }))
		type packed struct {
			handle any
			n      int
			v      float32
		}
		var stack []packed
		for i := range n {
			values[i] = float32(i + 1)
			require.NoError(t, s.put(i, size(i), values[i]))
		}
		at := 0
		for k := range rounds {
			v := float32(k + 100)
			if at++; r.IntN(4) == 0 {
				at = r.IntN(n)
			}
			i := at % n
			switch r.IntN(10) {
			case 0:
				values[i] = v
				require.NoError(t, s.put(i, size(i), v))
			case 1, 2:
				grads[i] = v
				require.NoError(t, s.putGrad(i, size(i), v))
			case 3:
				grads[i] = 0
				s.st.ForgetGrad(fmt.Sprint(i))
			case 4:
				require.NoError(t, s.with(size(i), v, func(x tensor.Tensor) error {
					h, err := s.st.Pack(&x, memory.Site{Op: "op", Scope: fmt.Sprint(k / 3)})
					stack = append(stack, packed{h, size(i), v})
					return err
				}))
			case 5:
				if m := len(stack); m > 0 {
					p := stack[m-1]
					stack = stack[:m-1]
					x, err := s.st.Unpack(s.dev, p.handle)
					require.NoError(t, s.is(x, err, p.n, p.v))
					s.st.Drop(p.handle)
				}
			case 6:
				from, m := r.IntN(19000), 1+r.IntN(1000)
				require.NoError(t, s.with(m, v, func(x tensor.Tensor) error { return slot.Write(x, int64(from)) }))
				copy(state[from:], slices.Repeat([]float32{v}, m))
			case 7:
				from, m := r.IntN(19000), 1+r.IntN(1000)
				slot.Ahead(int64(from), int64(m))
				require.NoError(t, s.with(m, 0, func(x tensor.Tensor) error {
					err := slot.Read(x, int64(from))
					require.Equal(t, state[from:from+m], tensor.Data[float32](&x))
					return err
				}))
			default:
				require.NoError(t, s.value(i, size(i), values[i]))
				if grads[i] != 0 {
					require.NoError(t, s.grad(i, size(i), grads[i]))
				}
			}
		}
		require.NoError(t, slot.Flush())
		_, _, overlap := f.since()
		require.False(t, overlap)
		for _, p := range stack {
			s.st.Drop(p.handle)
		}
		for i := range n {
			s.st.Forget(fmt.Sprint(i))
		}
		require.NoError(t, slot.Close())
		require.Zero(t, s.st.Stats().Disk)
		s.close()
	}
}
