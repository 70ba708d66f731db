package data

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/philox"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// noisy is a data set whose items are their number, their epoch, and random numbers of their own. Items divisible by 3
// leave the last field out.
type noisy struct {
	n   int
	get func(ctx context.Context, i int) error // before each item
}

func (s noisy) Len() int { return s.n }

func (s noisy) Fields() []tensor.Spec {
	return []tensor.Spec{tensor.Of(tensor.Int64, 2), tensor.Of(tensor.Float64, 3), tensor.Of(tensor.Uint8)}
}

func (s noisy) Get(ctx context.Context, item *Item) error {
	if s.get != nil {
		if err := s.get(ctx, item.Index()); err != nil {
			return err
		}
	}
	Field[int64](item, 0)[0], Field[int64](item, 0)[1] = int64(item.Index()), int64(item.Epoch())
	for j := range Field[float64](item, 1) {
		Field[float64](item, 1)[j] = item.Rand().NormFloat64()
	}
	if item.Index()%3 != 0 {
		Field[uint8](item, 2)[0] = uint8(item.Index())
	}
	return nil
}

// seen is a batch that was copied.
type seen struct {
	epoch, index int
	items        []int32
	x            []int64
	y            []float64
	z            []uint8
}

func look(epoch int, b *Batch) seen {
	return seen{
		epoch, b.Index, slices.Clone(b.Items), slices.Clone(tensor.Data[int64](b.X)), slices.Clone(tensor.Data[float64](b.Y)),
		slices.Clone(tensor.Data[uint8](b.Fields[2])),
	}
}

func loader(t testing.TB, d *memory.Device, ds Dataset, cfg LoaderConfig) *Loader {
	t.Helper()
	l, err := NewLoader(d, ds, cfg)
	require.NoError(t, err)
	return l
}

// epochs is all batches of some epochs.
func epochs(t testing.TB, l *Loader, from, to int) (all []seen) {
	t.Helper()
	for epoch := from; epoch < to; epoch++ {
		for b, err := range l.Epoch(t.Context(), epoch) {
			require.NoError(t, err)
			all = append(all, look(epoch, b))
		}
	}
	return all
}

func TestBatches(t *testing.T) {
	for _, c := range []struct {
		drop bool
		want []int
	}{{false, []int{3, 3, 3, 1}}, {true, []int{3, 3, 3}}} {
		d := device(t)
		l := loader(t, d, noisy{n: 10}, LoaderConfig{Batch: 3, DropLast: c.drop})
		var sizes []int
		next := 0
		for i, b := range epochs(t, l, 2, 3) {
			require.Equal(t, i, b.index)
			sizes = append(sizes, len(b.items))
			require.Len(t, b.x, 2*len(b.items))
			require.Len(t, b.y, 3*len(b.items))
			for k, item := range b.items {
				require.EqualValues(t, next, item)
				require.EqualValues(t, next, b.x[2*k])
				require.EqualValues(t, 2, b.x[2*k+1])
				next++
			}
		}
		require.Equal(t, c.want, sizes)
		require.Zero(t, d.Stats().Live)
	}
}

// D2, D3: nothing but speed depends on workers.
func TestWorkersChangeNothing(t *testing.T) {
	for _, cfg := range []LoaderConfig{
		{Batch: 4, Shuffle: true, Seed: 5},
		{Batch: 7, Seed: 5},
		{Batch: 4, Seed: 5, DropLast: true, Sampler: func(epoch int) []int32 { return []int32{3, 3, int32(epoch), 9, 0} }},
		{Seed: 5, BatchSampler: func(epoch int) [][]int32 { return [][]int32{{1}, {2, 3, int32(epoch)}, {1, 2}} }},
	} {
		want := epochs(t, loader(t, device(t), noisy{n: 30}, cfg), 0, 3)
		require.NotEmpty(t, want)
		for _, w := range []struct{ workers, prefetch int }{{1, 1}, {3, 0}, {8, 5}} {
			cfg.Workers, cfg.Prefetch = w.workers, w.prefetch
			require.Equal(t, want, epochs(t, loader(t, device(t), noisy{n: 30}, cfg), 0, 3), "%+v", w)
		}
	}
	shuffled := LoaderConfig{Batch: 30, Shuffle: true, Seed: 5}
	one := epochs(t, loader(t, device(t), noisy{n: 30}, shuffled), 0, 2)
	require.Equal(t, Shuffle(30, 5, 0), one[0].items)
	require.Equal(t, Shuffle(30, 5, 1), one[1].items)
}

// D2: an item's random numbers are a function of (seed, epoch, index). Saved trainings rely on them: these never change.
func TestItemStreams(t *testing.T) {
	draw := func(seed uint64, epoch, index int) (v [3]uint64) {
		it := newItem()
		it.seed, it.epoch, it.index = seed, epoch, index
		for i := range v {
			v[i] = it.Rand().Uint64()
		}
		return v
	}
	require.Equal(t, [3]uint64{0x14f6470f116883e2, 0x8bfc9850380a5490, 0x845172812b200d77}, draw(1, 2, 3))
	var words [6]uint32
	philox.Fill(words[:], 1, itemStream+2, 3<<32)
	for i, v := range draw(1, 2, 3) {
		require.Equal(t, uint64(words[2*i])|uint64(words[2*i+1])<<32, v)
	}
	seen := map[uint64]bool{}
	for seed := range uint64(4) {
		for epoch := range 4 {
			for index := range 4 {
				for _, v := range draw(seed, epoch, index) {
					seen[v] = true
				}
			}
		}
	}
	require.Len(t, seen, 4*4*4*3)
	it := newItem()
	it.seed, it.epoch, it.index = 1, 2, 3
	for range 1000 {
		it.Rand().Uint64()
	}
	it.index, it.drawn = 3, false
	require.Equal(t, draw(1, 2, 3)[0], it.Rand().Uint64())
}

func TestNewLoaderRefuses(t *testing.T) {
	sampler := func(int) []int32 { return nil }
	batches := func(int) [][]int32 { return nil }
	d := device(t)
	for _, c := range []struct {
		cfg  LoaderConfig
		want string
	}{
		{LoaderConfig{}, "Batch is 0: want 1 or more items, or a BatchSampler"},
		{LoaderConfig{Batch: -1}, "Batch is -1"},
		{LoaderConfig{Batch: 1, Shuffle: true, Sampler: sampler}, "Sampler excludes Shuffle"},
		{LoaderConfig{Batch: 1, BatchSampler: batches}, "BatchSampler excludes"},
		{LoaderConfig{Shuffle: true, BatchSampler: batches}, "BatchSampler excludes"},
		{LoaderConfig{DropLast: true, BatchSampler: batches}, "BatchSampler excludes"},
		{LoaderConfig{Sampler: sampler, BatchSampler: batches}, "BatchSampler excludes"},
		{LoaderConfig{Batch: 11, DropLast: true}, "Batch is 11 with DropLast: want at most 10"},
		{LoaderConfig{Batch: 1, Workers: -1}, "Workers -1"},
		{LoaderConfig{Batch: 1, Prefetch: -2}, "Prefetch -2"},
		{LoaderConfig{Batch: 1, QueueBytes: -3}, "QueueBytes -3"},
		{LoaderConfig{Batch: 1, Timeout: -4}, "Timeout -4ns: want 0 or more"},
		{LoaderConfig{Batch: 1, Prefetch: 2}, "Prefetch 2, QueueBytes 0, Timeout 0s without Workers"},
		{LoaderConfig{Batch: 1, QueueBytes: 2}, "without Workers"},
		{LoaderConfig{Batch: 1, Timeout: time.Second}, "Timeout 1s without Workers"},
	} {
		_, err := NewLoader(d, noisy{n: 10}, c.cfg)
		require.ErrorContains(t, err, "data: NewLoader: ")
		require.ErrorContains(t, err, c.want)
	}
	for _, ds := range []Dataset{nil, noisy{n: 0}, noisy{n: -1}, noisy{n: math.MaxInt32 + 1}, fields{}, fields{{DType: 77}}} {
		_, err := NewLoader(d, ds, LoaderConfig{Batch: 1})
		require.Error(t, err)
	}
	_, err := NewLoader(nil, noisy{n: 1}, LoaderConfig{Batch: 1})
	require.ErrorContains(t, err, "device")
	for want, cfg := range map[string]LoaderConfig{
		"Sampler: item 10 at 1: want 0 to 9":     {Batch: 1, Sampler: func(int) []int32 { return []int32{1, 10} }},
		"BatchSampler: item -1 at 0":             {BatchSampler: func(int) [][]int32 { return [][]int32{{1}, {-1}} }},
		"BatchSampler: batch 1 is empty":         {BatchSampler: func(int) [][]int32 { return [][]int32{{1}, {}} }},
		"QueueBytes is 122: want 123 or more":    {Batch: 3, Workers: 1, QueueBytes: 122},
		"data: open epoch -1: want 0 to 2^32-1":  {Batch: 1},
		"data: open epoch 4: the context is nil": {Batch: 1},
	} {
		l := loader(t, d, noisy{n: 10}, cfg)
		epoch, ctx := 0, t.Context()
		if cfg.Workers == 0 && cfg.Batch == 1 && cfg.Sampler == nil {
			fmt.Sscanf(want, "data: open epoch %d", &epoch)
		}
		if epoch > 0 {
			ctx = nil
		}
		_, err := l.Open(ctx, epoch)
		require.ErrorContains(t, err, want)
		for b, err := range l.Epoch(ctx, epoch) {
			require.Nil(t, b)
			require.ErrorContains(t, err, want)
		}
	}
	require.Zero(t, d.Stats().Live)
}

// fields is a data set of one item that has them.
type fields []tensor.Spec

func (f fields) Len() int                         { return 1 }
func (f fields) Fields() []tensor.Spec            { return f }
func (f fields) Get(context.Context, *Item) error { return nil }

// Every dtype has its slice; another one, or a field too many, is refused in words.
func TestFields(t *testing.T) {
	var all fields
	for _, dt := range tensor.DTypes() {
		all = append(all, tensor.Of(dt, 2, 2))
	}
	d := device(t)
	for b, err := range loader(t, d, all, LoaderConfig{Batch: 1}).Epoch(t.Context(), 0) {
		require.NoError(t, err)
		require.Len(t, b.Fields, len(all))
		for k, f := range b.Fields {
			require.True(t, f.Spec().Equal(tensor.Of(tensor.DType(k), 1, 2, 2)))
			require.Zero(t, f.At(0, 1, 1))
		}
	}
	it := newItem()
	it.fields = []field{{spec: all[0], n: 4, elems: make([]float32, 8)}}
	require.Len(t, Field[float32](it, 0), 4)
	require.PanicsWithValue(t, "data: field 0 of an item is float32[2 2]: asked as int64", func() { Field[int64](it, 0) })
	require.PanicsWithValue(t, "data: field 1 of an item: want 0 to 0, as the data set's Fields say", func() { Field[float32](it, 1) })
}

// D4: the bytes are those of the ring, from opening to closing.
func TestRing(t *testing.T) {
	const batch = 4 * (16 + 24 + 1)
	for _, c := range []struct {
		cfg  LoaderConfig
		want int64
	}{
		{LoaderConfig{Batch: 4}, 1},
		{LoaderConfig{Batch: 4, Workers: 2}, 5},
		{LoaderConfig{Batch: 4, Workers: 3, Prefetch: 1}, 4},
		{LoaderConfig{Batch: 4, Workers: 1, Prefetch: 1}, 2},
		{LoaderConfig{Batch: 4, Workers: 2, QueueBytes: 3*batch + 1}, 4},
		{LoaderConfig{Batch: 4, Workers: 2, QueueBytes: 100 * batch}, 5},
		{LoaderConfig{Batch: 4, Workers: 20}, 10}, // all batches of the epoch
	} {
		d := device(t)
		l := loader(t, d, noisy{n: 40}, c.cfg)
		require.Zero(t, d.Stats().Live)
		e, err := l.Open(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, 10, e.Len())
		require.Equal(t, c.want*batch, d.Stats().Live, "%+v", c.cfg)
		require.Equal(t, c.want*batch, d.Stats().LiveByKind[memory.Input])
		allocs := d.Stats().Allocs
		for range e.Len() {
			_, err := e.Next()
			require.NoError(t, err)
		}
		require.Equal(t, allocs, d.Stats().Allocs, "nothing is taken while an epoch runs")
		e.Close()
		e.Close()
		require.Zero(t, d.Stats().Live)
		_, err = e.Next()
		require.ErrorIs(t, err, errClosed)
	}
}

// Every allocation of opening can fail.
func TestOpenWithoutMemory(t *testing.T) {
	d := device(t)
	l := loader(t, d, noisy{n: 40}, LoaderConfig{Batch: 4, Workers: 2})
	for n := int64(1); n <= 15; n++ {
		d.FailAt(n)
		_, err := l.Open(t.Context(), 0)
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
		require.ErrorContains(t, err, "fewer Workers")
		require.Zero(t, d.Stats().Live)
		require.Equal(t, 0, l.State().Batch)
	}
	d.FailAt(0)
	require.Len(t, epochs(t, l, 0, 1), 10)
}

// D6: interrupted anywhere, any number of times, with any workers, the batches are those of a loader that never was.
func TestResume(t *testing.T) {
	cfg := LoaderConfig{Batch: 4, Shuffle: true, Seed: 3}
	want := epochs(t, loader(t, device(t), noisy{n: 30}, cfg), 0, 3)
	for stride := 1; stride <= 9; stride++ {
		var got []seen
		saved := []byte(nil)
		for life := 0; len(got) < len(want); life++ {
			cfg.Workers = life % 4
			l := loader(t, device(t), noisy{n: 30}, cfg)
			if saved != nil {
				var st LoaderState
				require.NoError(t, json.NewDecoder(bytes.NewReader(saved)).Decode(&st))
				require.NoError(t, l.Load(st))
				require.Equal(t, st, l.State(), "what was loaded is what would be saved")
			}
			left := stride
			for epoch := l.State().Epoch; epoch < 3 && left > 0; epoch++ {
				for b, err := range l.Epoch(t.Context(), epoch) {
					require.NoError(t, err)
					got = append(got, look(epoch, b))
					if left--; left == 0 {
						require.Equal(t, epoch, l.State().Epoch)
						require.Equal(t, b.Index+1, l.State().Batch)
						break
					}
				}
			}
			var err error
			saved, err = json.Marshal(l.State())
			require.NoError(t, err)
		}
		require.Equal(t, want, got, "stride %d", stride)
	}
}

func TestState(t *testing.T) {
	l := loader(t, device(t), noisy{n: 8}, LoaderConfig{Batch: 4, Workers: 1, Seed: 9})
	at := func(epoch, batch int) {
		t.Helper()
		require.Equal(t, []int{epoch, batch}, []int{l.State().Epoch, l.State().Batch})
	}
	at(0, 0)
	e, err := l.Open(t.Context(), 5)
	require.NoError(t, err)
	at(5, 0)
	_, err = l.Open(t.Context(), 6)
	require.ErrorContains(t, err, "epoch 5 is open")
	require.ErrorContains(t, l.Load(l.State()), "epoch 5 is open: load between epochs")
	for i := range 2 {
		_, err = e.Next()
		require.NoError(t, err)
		at(5, i+1)
	}
	end := l.State()
	_, err = e.Next()
	require.Error(t, err)
	at(6, 0)
	require.NoError(t, l.Load(end), "the state within the last batch")
	require.Empty(t, epochs(t, l, 5, 6))
	at(6, 0)
	require.Len(t, epochs(t, l, 5, 6), 2, "without Load an epoch begins at its beginning")
}

func TestLoadRefuses(t *testing.T) {
	cfg := LoaderConfig{Batch: 4, Seed: 9, Shuffle: true}
	l := loader(t, device(t), noisy{n: 8}, cfg)
	epochs(t, l, 0, 1)
	st := l.State()
	change := func(f func(st *LoaderState)) LoaderState {
		c := st
		f(&c)
		return c
	}
	for want, bad := range map[string]LoaderState{
		"batch -1 of epoch 1":                change(func(st *LoaderState) { st.Batch = -1 }),
		"of epoch -1":                        change(func(st *LoaderState) { st.Epoch = -1 }),
		"9 items, Batch 4, Shuffle true":     change(func(st *LoaderState) { st.Items = 9 }),
		"Batch 5, Shuffle true":              change(func(st *LoaderState) { st.Size = 5 }),
		"Shuffle false":                      change(func(st *LoaderState) { st.Shuffle = false }),
		"DropLast true":                      change(func(st *LoaderState) { st.DropLast = true }),
		"Seed 8: this one has 8 items, Bat":  change(func(st *LoaderState) { st.Seed = 8 }),
		"data: Loader.Load: the state is of": {},
	} {
		require.ErrorContains(t, l.Load(bad), want)
		require.Equal(t, st, l.State())
	}
	require.NoError(t, l.Load(change(func(st *LoaderState) { st.Batch = 3 })))
	_, err := l.Open(t.Context(), 0)
	require.ErrorContains(t, err, "the loaded state is at batch 3 of epoch 1: begin with State().Epoch")
	_, err = l.Open(t.Context(), 1)
	require.ErrorContains(t, err, "want at most 2, the batches of the epoch")

	turn := int32(0)
	moody := loader(t, device(t), noisy{n: 8}, LoaderConfig{Batch: 1, Sampler: func(int) []int32 { turn++; return []int32{turn, 2, 3} }})
	e, err := moody.Open(t.Context(), 0)
	require.NoError(t, err)
	st = moody.State()
	e.Close()
	require.Equal(t, st, moody.State())
	require.NoError(t, moody.Load(st))
	_, err = moody.Open(t.Context(), 0)
	require.ErrorContains(t, err, "another order than when the state was taken")
}

// A batch that a backward pass saved does not change under it unseen: its version rises when it is used again.
func TestBatchVersions(t *testing.T) {
	l := loader(t, device(t), noisy{n: 8}, LoaderConfig{Batch: 4})
	e, err := l.Open(t.Context(), 0)
	require.NoError(t, err)
	defer e.Close()
	b, err := e.Next()
	require.NoError(t, err)
	x, before := b.X, b.X.Version()
	_, err = e.Next()
	require.NoError(t, err)
	require.Greater(t, x.Version(), before)
}

// A dry run that asks for batches gets their shapes, and moves nothing.
func TestDryRun(t *testing.T) {
	d := device(t)
	sess, err := autograd.New(autograd.Config{Device: d})
	require.NoError(t, err)
	defer func() { require.NoError(t, sess.Close()) }()
	l := loader(t, d, noisy{n: 10}, LoaderConfig{Batch: 4, Workers: 2})
	e, err := l.Open(t.Context(), 0)
	require.NoError(t, err)
	defer e.Close()
	step := func(s *autograd.Scope) error {
		for range 2 {
			b, err := e.Next()
			if err != nil {
				return err
			}
			s.Input(b.X)
			if s.Dry() {
				_, err = l.Open(t.Context(), 1)
				require.ErrorContains(t, err, "epoch 0 is open")
				_, err = loader(t, d, noisy{n: 10}, LoaderConfig{Batch: 4}).Open(t.Context(), 1)
				require.ErrorContains(t, err, "within a dry run")
			}
		}
		return nil
	}
	_, err = sess.Plan(step, autograd.PlanConfig{Steps: 3})
	require.NoError(t, err)
	require.Zero(t, l.State().Batch)
	require.NoError(t, sess.Step(t.Context(), step))
	require.Equal(t, 2, l.State().Batch)
}

// On a virtual device batches have shapes and nobody reads data.
func TestVirtualLoader(t *testing.T) {
	d, err := memory.NewDevice(memory.Config{Virtual: true})
	require.NoError(t, err)
	ds := noisy{n: 10, get: func(context.Context, int) error { panic("read") }}
	for _, workers := range []int{0, 3} {
		n := 0
		for b, err := range loader(t, d, ds, LoaderConfig{Batch: 4, Workers: workers}).Epoch(t.Context(), 0) {
			require.NoError(t, err)
			require.Equal(t, min(4, 10-n), b.X.Dim(0))
			n += len(b.Items)
		}
		require.Equal(t, 10, n)
	}
	require.NoError(t, d.Close())
}

func TestSubset(t *testing.T) {
	ds, err := Subset(noisy{n: 10}, []int32{7, 7, 2})
	require.NoError(t, err)
	all := epochs(t, loader(t, device(t), ds, LoaderConfig{Batch: 3}), 0, 1)
	require.Equal(t, []int64{7, 0, 7, 0, 2, 0}, all[0].x)
	require.Equal(t, all[0].y[:3], all[0].y[3:6], "an item has its random numbers wherever it comes")
	_, err = Subset(noisy{n: 10}, []int32{1, 10})
	require.ErrorContains(t, err, "data: Subset: index 10 at 1: want 0 to 9")
}

// PageLock locks what the system lets it, and says how much that is.
func TestPageLock(t *testing.T) {
	d := device(t)
	big := fields{tensor.Of(tensor.Float32, 4096)}
	e, err := loader(t, d, big, LoaderConfig{Batch: 1, PageLock: true}).Open(t.Context(), 0)
	require.NoError(t, err)
	defer e.Close()
	if n, err := e.Locked(); err == nil {
		page := int64(os.Getpagesize())
		require.Equal(t, 16<<10/page*page, n, "the ring is one batch at the start of the arena")
	} else {
		require.ErrorContains(t, err, "memory: cpu: lock ")
		require.Zero(t, n)
	}
	e2, err := loader(t, d, big, LoaderConfig{Batch: 1}).Open(t.Context(), 0)
	require.NoError(t, err)
	defer e2.Close()
	n, err := e2.Locked()
	require.NoError(t, err)
	require.Zero(t, n)
}
