package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var errDisk = errors.New("disk")

// goroutines waits until as many goroutines run as before: one that has returned is counted for a moment more.
func goroutines(t testing.TB, before int) {
	t.Helper()
	for range 10_000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

// D7: the batches before the bad item come, then its error, with any number of workers, whatever is slow.
func TestItemError(t *testing.T) {
	for _, workers := range []int{0, 1, 2, 7} {
		for bad := range 20 {
			d, before := device(t), runtime.NumGoroutine()
			cause := &fs.PathError{Op: "read", Path: "x", Err: errDisk}
			ds := noisy{n: 20, get: func(_ context.Context, i int) error {
				if i%3 == bad%3 {
					time.Sleep(time.Duration(i%5) * 10 * time.Microsecond)
				}
				if i >= bad {
					return fmt.Errorf("number %d: %w", i, cause)
				}
				return nil
			}}
			l := loader(t, d, ds, LoaderConfig{Batch: 3, Workers: workers})
			n := 0
			var last error
			for b, err := range l.Epoch(t.Context(), 0) {
				require.NoError(t, last, "an error is the last that comes")
				if last = err; err == nil {
					n += len(b.Items)
				} else {
					require.Nil(t, b)
				}
			}
			require.Equal(t, bad/3*3, n)
			require.ErrorIs(t, last, errDisk)
			var pe *fs.PathError
			require.ErrorAs(t, last, &pe)
			require.ErrorContains(t, last, fmt.Sprintf("data: epoch 0, batch %d: item %d: ", bad/3, bad))
			require.ErrorContains(t, last, fmt.Sprintf("number %d: read x: disk", bad))
			if workers > 0 {
				require.ErrorContains(t, last, "caught *fmt.wrapError in worker: ")
			}
			require.Zero(t, d.Stats().Live)
			require.Equal(t, bad/3, l.State().Batch)
			goroutines(t, before)
			require.ErrorIs(t, func() error { _, err := l.Open(t.Context(), 0); return err }(), nil)
			l.open.Close()
		}
	}
}

func TestItemPanic(t *testing.T) {
	for name, v := range map[string]any{"error": errDisk, "text": "boom", "nil": nil} {
		d, before := device(t), runtime.NumGoroutine()
		ds := noisy{n: 20, get: func(_ context.Context, i int) error {
			if i == 7 {
				panic(v)
			}
			return nil
		}}
		var last error
		for _, err := range loader(t, d, ds, LoaderConfig{Batch: 4, Workers: 2}).Epoch(t.Context(), 3) {
			last = err
		}
		require.ErrorContains(t, last, "data: epoch 3, batch 1: item 7: caught panic in worker: ", name)
		require.ErrorContains(t, last, "worker_test.go", "the stack")
		var pe *PanicError
		require.ErrorAs(t, last, &pe)
		if v == errDisk {
			require.ErrorIs(t, last, errDisk)
		}
		require.Zero(t, d.Stats().Live)
		goroutines(t, before)
	}
}

// A panic in the caller's own goroutine is the caller's.
func TestItemPanicWithoutWorkers(t *testing.T) {
	d := device(t)
	ds := noisy{n: 20, get: func(context.Context, int) error { panic("boom") }}
	require.PanicsWithValue(t, "boom", func() {
		for range loader(t, d, ds, LoaderConfig{Batch: 4}).Epoch(t.Context(), 0) {
			t.Fatal("a batch")
		}
	})
	require.Zero(t, d.Stats().Live)
}

// Goexit in every worker at once.
func TestItemGoexit(t *testing.T) {
	d, before := device(t), runtime.NumGoroutine()
	ds := noisy{n: 20, get: func(_ context.Context, i int) error {
		if i >= 5 {
			runtime.Goexit()
		}
		return nil
	}}
	var last error
	n := 0
	for _, err := range loader(t, d, ds, LoaderConfig{Batch: 4, Workers: 3}).Epoch(t.Context(), 0) {
		last = err
		n++
	}
	require.Equal(t, 2, n)
	require.ErrorContains(t, last, "batch 1: item 5: Get ended its goroutine (runtime.Goexit)")
	require.Zero(t, d.Stats().Live)
	goroutines(t, before)
}

// D4, D5: however a loop ends, workers and memory are gone.
func TestEarlyExit(t *testing.T) {
	exits := map[string]func(){
		"break":  func() {},
		"panic":  func() { panic("body") },
		"goexit": runtime.Goexit,
	}
	for name, exit := range exits {
		for _, workers := range []int{0, 4} {
			d, before := device(t), runtime.NumGoroutine()
			l := loader(t, d, noisy{n: 100}, LoaderConfig{Batch: 4, Workers: workers})
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				for b, err := range l.Epoch(t.Context(), 0) {
					if err != nil || b.Index == 5 {
						exit()
						break
					}
				}
			}()
			<-done
			require.Zero(t, d.Stats().Live, name)
			require.Equal(t, 6, l.State().Batch)
			goroutines(t, before)
		}
	}
}

// M4: the thousandth epoch leaves what the first did.
func TestManyEpochs(t *testing.T) {
	d, before := device(t), runtime.NumGoroutine()
	l := loader(t, d, noisy{n: 10}, LoaderConfig{Batch: 4, Workers: 2, Shuffle: true})
	for epoch := range 1000 {
		for _, err := range l.Epoch(t.Context(), epoch) {
			require.NoError(t, err)
			if epoch%2 == 0 {
				break
			}
		}
	}
	require.Zero(t, d.Stats().Live)
	goroutines(t, before)
}

func TestContext(t *testing.T) {
	for _, workers := range []int{0, 3} {
		d, before := device(t), runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(t.Context())
		ds := noisy{n: 20, get: func(ctx context.Context, i int) error {
			if i < 8 {
				return nil
			}
			if i == 9 {
				cancel()
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		if workers == 0 {
			ds.get = func(context.Context, int) error { return nil }
		}
		var last error
		n := 0
		for b, err := range loader(t, d, ds, LoaderConfig{Batch: 4, Workers: workers}).Epoch(ctx, 0) {
			if last = err; err == nil {
				n++
			}
			if workers == 0 && b != nil && b.Index == 1 {
				cancel()
			}
		}
		require.ErrorIs(t, last, context.Canceled)
		require.ErrorContains(t, last, fmt.Sprintf("data: epoch 0, batch %d: ", n))
		require.LessOrEqual(t, n, 2)
		require.Zero(t, d.Stats().Live)
		goroutines(t, before)
		cancel()
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := device(t)
		ds := noisy{n: 20, get: func(ctx context.Context, i int) error {
			if i == 6 { // hangs, but listens
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		}}
		var last error
		begin := time.Now()
		for _, err := range loader(t, d, ds, LoaderConfig{Batch: 4, Workers: 2, Timeout: time.Second}).Epoch(t.Context(), 0) {
			last = err
		}
		require.ErrorIs(t, last, context.DeadlineExceeded)
		require.ErrorContains(t, last, "data: epoch 0, batch 1: it was not there after Timeout, 1s")
		require.Equal(t, 1020*time.Millisecond, time.Since(begin), "20 ms for the first batch, then the timeout")
		require.Zero(t, d.Stats().Live)
	})
}

// With a millisecond of waiting for each item, four workers have a batch of eight ready every two: a step that takes as
// long waits for the first batch only. In a bubble of its own time this is exact.
func TestWorkersHideWaiting(t *testing.T) {
	const items, batch, wait, compute = 80, 8, time.Millisecond, 2 * time.Millisecond
	for _, c := range []struct {
		workers int
		want    time.Duration
	}{
		{0, items*wait + items/batch*compute},
		{1, items*wait + compute},
		{2, items*wait/2 + compute},
		{4, batch*wait/4 + items/batch*compute},
		{8, batch*wait/8 + items/batch*compute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ds := noisy{n: items, get: func(context.Context, int) error { time.Sleep(wait); return nil }}
			l := loader(t, device(t), ds, LoaderConfig{Batch: batch, Workers: c.workers})
			begin := time.Now()
			for _, err := range l.Epoch(t.Context(), 0) {
				require.NoError(t, err)
				time.Sleep(compute)
			}
			require.Equal(t, c.want, time.Since(begin), "%d workers", c.workers)
		})
	}
}

// Workers read ahead of the user by the ring, not further.
func TestReadAheadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read atomic.Int64
		ds := noisy{n: 1000, get: func(context.Context, int) error { read.Add(1); return nil }}
		l := loader(t, device(t), ds, LoaderConfig{Batch: 10, Workers: 2, Prefetch: 2})
		e, err := l.Open(t.Context(), 0)
		require.NoError(t, err)
		defer e.Close()
		for i := range 20 {
			synctest.Wait()
			require.EqualValues(t, min(1000, 10*(5+max(0, i-1))), read.Load())
			_, err := e.Next()
			require.NoError(t, err)
		}
	})
}

// BenchmarkWaiting: a millisecond an item, as from a disk, batches of 16, and a step that takes 5 ms of a processor.
// stall-ms is what the loop waits for a batch.
//
//	go test ./data -run xxx -bench Waiting
func BenchmarkWaiting(b *testing.B) {
	ds := noisy{n: 1 << 20, get: func(context.Context, int) error { time.Sleep(time.Millisecond); return nil }}
	for _, workers := range []int{0, 1, 2, 4, 8} {
		b.Run(fmt.Sprintf("%d workers", workers), func(b *testing.B) {
			l := loader(b, device(b), ds, LoaderConfig{Batch: 16, Workers: workers})
			e, err := l.Open(b.Context(), 0)
			require.NoError(b, err)
			defer e.Close()
			var stall time.Duration
			for b.Loop() {
				begin := time.Now()
				_, err := e.Next()
				require.NoError(b, err)
				stall += time.Since(begin)
				for begin := time.Now(); time.Since(begin) < 5*time.Millisecond; {
				}
			}
			b.ReportMetric(stall.Seconds()*1e3/float64(b.N), "stall-ms/op")
		})
	}
}
