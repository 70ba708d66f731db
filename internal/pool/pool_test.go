package pool

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// onProcs runs f with several values of GOMAXPROCS.
func onProcs(t *testing.T, f func(t *testing.T)) {
	for _, n := range []int{1, 2, 7} {
		t.Run(fmt.Sprintf("GOMAXPROCS=%d", n), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
			f(t)
		})
	}
}

// open makes a pool that the test closes, and checks that no goroutine outlives it.
func open(t *testing.T, workers int) *Pool {
	before := runtime.NumGoroutine()
	p := New(workers)
	t.Cleanup(func() {
		p.Close()
		requireGoroutines(t, before)
	})
	return p
}

// requireGoroutines waits for a goroutine that has said that it ends to be gone from the runtime's count.
func requireGoroutines(t *testing.T, want int) {
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > want && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), want, "goroutines")
}

// check runs a job and checks what Run promises: every chunk once, lanes in range and held by one call at a time.
func check(t *testing.T, p *Pool, lanes, chunks int, body func()) {
	limit := min(p.Workers(), lanes, chunks)
	count := make([]atomic.Int32, chunks)
	held := make([]atomic.Bool, max(1, limit))
	var bad atomic.Int32
	p.Run(lanes, chunks, func(lane, chunk int) {
		if lane < 0 || lane >= limit || !held[lane].CompareAndSwap(false, true) {
			bad.Add(1)
			return
		}
		body()
		count[chunk].Add(1)
		held[lane].Store(false)
	})
	require.Zero(t, bad.Load(), "a lane out of range or held twice")
	for c := range count {
		require.EqualValues(t, 1, count[c].Load(), "chunk %d", c)
	}
}

// work takes about the given time and gives other goroutines a chance.
func work(d time.Duration) func() {
	return func() {
		for start := time.Now(); time.Since(start) < d; {
			runtime.Gosched()
		}
	}
}

func TestRun(t *testing.T) {
	onProcs(t, func(t *testing.T) {
		for _, workers := range []int{1, 2, 3, 8} {
			p := open(t, workers)
			for _, lanes := range []int{1, 2, 5, 100} {
				for _, chunks := range []int{0, 1, 2, 3, 17, 100} {
					check(t, p, lanes, chunks, func() {})
					check(t, p, lanes, chunks, work(5*time.Microsecond))
				}
			}
		}
	})
}

func TestManyShortRuns(t *testing.T) {
	onProcs(t, func(t *testing.T) {
		p := open(t, 3)
		var n atomic.Int64
		for range 20000 {
			p.Run(3, 3, func(lane, chunk int) { n.Add(1) })
		}
		require.EqualValues(t, 60000, n.Load())
	})
}

// Runs after pauses of all lengths around spinTime meet workers that spin, are about to park, or are parked.
func TestRunAfterPause(t *testing.T) {
	onProcs(t, func(t *testing.T) {
		p := open(t, 3)
		for i := range 300 {
			check(t, p, 3, 6, work(time.Microsecond))
			work(time.Duration(i%60) * time.Microsecond)()
		}
	})
}

// Several workers really take part, at the same time.
func TestParallel(t *testing.T) {
	onProcs(t, func(t *testing.T) {
		p := open(t, 4)
		for range 20 {
			var meet sync.WaitGroup
			meet.Add(3)
			p.Run(3, 3, func(lane, chunk int) { // hangs unless three calls are under way at once
				meet.Done()
				meet.Wait()
			})
		}
	})
}

func TestInlineOrder(t *testing.T) {
	p := open(t, 4)
	var got [][2]int
	p.Run(1, 3, func(lane, chunk int) { got = append(got, [2]int{lane, chunk}) })
	require.Equal(t, [][2]int{{0, 0}, {0, 1}, {0, 2}}, got)
}

func TestNested(t *testing.T) {
	onProcs(t, func(t *testing.T) {
		p := open(t, 3)
		for range 50 {
			var n atomic.Int64
			var bad atomic.Int64
			p.Run(3, 9, func(int, int) {
				last := -1 // unguarded: a nested call runs all its chunks here, in order
				p.Run(3, 5, func(lane, chunk int) {
					if lane != 0 || chunk != last+1 {
						bad.Add(1)
					}
					last = chunk
					p.Run(2, 2, func(int, int) { n.Add(1) })
				})
			})
			require.EqualValues(t, 90, n.Load())
			require.Zero(t, bad.Load())
		}
	})
}

func TestConcurrentCallers(t *testing.T) {
	onProcs(t, func(t *testing.T) {
		p := open(t, 3)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 200 {
					check(t, p, 3, 7, func() {})
				}
			})
		}
		all.Wait()
	})
}

func TestManyPools(t *testing.T) {
	onProcs(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 10 {
					p := New(3)
					for range 20 {
						check(t, p, 3, 5, func() {})
					}
					p.Close()
					p.Close() // does nothing
				}
			})
		}
		all.Wait()
		requireGoroutines(t, before)
	})
}

type bang struct{ chunk int }

func (b *bang) Error() string { return "bang" }

func TestPanic(t *testing.T) {
	onProcs(t, func(t *testing.T) {
		p := open(t, 3)
		for i := range 60 {
			b := &bang{i % 6}
			got := caught(func() {
				// Hours of work: that the test ends shows that handing out stopped.
				p.Run(3, 1<<30, func(lane, chunk int) {
					if chunk == b.chunk {
						panic(b)
					}
					work(10 * time.Microsecond)()
				})
			})
			require.Same(t, b, got, "the very same value")
			check(t, p, 3, 10, func() {}) // usable again
		}
	})
}

// Panics of a worker and of the caller, whoever gets which chunk: both sides wait until the other is in f.
func TestPanicByLane(t *testing.T) {
	onProcs(t, func(t *testing.T) {
		p := open(t, 2)
		for _, which := range []func(lane int) bool{
			func(lane int) bool { return lane == 0 },
			func(lane int) bool { return lane == 1 },
			func(lane int) bool { return true },
		} {
			var both sync.WaitGroup
			both.Add(2)
			var ran atomic.Int32
			got := caught(func() {
				p.Run(2, 2, func(lane, chunk int) {
					both.Done()
					both.Wait()
					if which(lane) {
						panic(fmt.Errorf("wrapped: %w", &bang{lane}))
					}
					work(200 * time.Microsecond)()
					ran.Add(1)
				})
			})
			var b *bang
			require.True(t, errors.As(got.(error), &b))
			require.True(t, which(b.chunk))
			if !which(0) || !which(1) {
				require.EqualValues(t, 1, ran.Load(), "Run came back before the other call had ended")
			}
			check(t, p, 2, 10, func() {})
		}
	})
}

func TestPanicValues(t *testing.T) {
	p := open(t, 2)
	for _, v := range []any{"text", 7, errors.New("x"), []int{1}} {
		require.Equal(t, v, caught(func() { p.Run(2, 50, func(int, int) { panic(v) }) }))
	}
	var re runtime.Error
	require.ErrorAs(t, caught(func() {
		var s []int
		p.Run(2, 50, func(lane, chunk int) { s[chunk] = 1 })
	}).(error), &re)
}

func TestNestedPanic(t *testing.T) {
	p := open(t, 3)
	b := &bang{}
	require.Same(t, b, caught(func() {
		p.Run(3, 9, func(int, int) { p.Run(3, 3, func(int, int) { panic(b) }) })
	}))
	check(t, p, 3, 9, func() {})
}

func TestGoexit(t *testing.T) {
	onProcs(t, func(t *testing.T) {
		p := open(t, 2)
		for _, bad := range []int{0, 1, 1, 1, 0, 1} { // often enough that a lost worker would show
			var both sync.WaitGroup
			both.Add(2)
			var ran atomic.Int32
			var got any
			returned, ended := false, make(chan bool)
			go func() {
				defer close(ended)
				got = caught(func() {
					p.Run(2, 2, func(lane, chunk int) {
						both.Done()
						both.Wait()
						if lane == bad {
							runtime.Goexit()
						}
						work(200 * time.Microsecond)()
						ran.Add(1)
					})
				})
				returned = true
			}()
			<-ended
			require.EqualValues(t, 1, ran.Load(), "the other call was not waited for")
			if bad == 0 {
				require.False(t, returned, "Goexit of the caller goes on")
			} else {
				require.True(t, returned)
				var e *GoexitError
				require.ErrorAs(t, got.(error), &e)
				require.Equal(t, 1, e.Lane)
				require.Contains(t, e.Error(), "runtime.Goexit")
			}
			check(t, p, 2, 10, func() {})
		}
	})
}

// The caller's goroutine ends by Goexit while a worker panics: the panic is not lost.
func TestGoexitAndPanic(t *testing.T) {
	p := open(t, 2)
	b := &bang{}
	got := make(chan any, 1)
	go func() {
		defer func() { got <- recover() }()
		var both sync.WaitGroup
		both.Add(2)
		p.Run(2, 2, func(lane, chunk int) {
			both.Done()
			both.Wait()
			if lane == 0 {
				runtime.Goexit()
			}
			panic(b)
		})
	}()
	require.Same(t, b, <-got)
	check(t, p, 2, 10, func() {})
}

func TestMisuse(t *testing.T) {
	p := New(2)
	require.Contains(t, caught(func() { p.Run(0, 3, func(int, int) {}) }), "lanes")
	require.Contains(t, caught(func() { p.Run(2, 3, func(int, int) { p.Close() }) }), "Close during Run")
	p.Run(0, 0, func(int, int) {})
	check(t, p, 2, 3, func() {})
	p.Close()
	require.Contains(t, caught(func() { p.Run(2, 3, func(int, int) {}) }), "after Close")
	require.Contains(t, caught(func() { p.Run(1, 1, func(int, int) {}) }), "after Close")
	require.Contains(t, caught(func() { New(0) }), "workers")
}

func TestNoAllocation(t *testing.T) {
	p := open(t, 2)
	f := func(lane, chunk int) {}
	for _, chunks := range []int{1, 8} {
		require.Zero(t, testing.AllocsPerRun(200, func() { p.Run(2, chunks, f) }))
	}
}

// caught is what f panics with.
func caught(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// What a Run costs that has nothing to do. Two workers: after one another, so that they meet spinning, and after a
// pause of 100 microseconds (not counted), so that they have to be woken.
func BenchmarkEmptyRun(b *testing.B) {
	f := func(lane, chunk int) {}
	for _, workers := range []int{1, 2} {
		p := New(workers)
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				p.Run(8, 8, f)
			}
		})
		p.Close()
	}
	p := New(2)
	defer p.Close()
	b.Run("workers=2/parked", func(b *testing.B) {
		var spent time.Duration
		for b.Loop() {
			time.Sleep(3 * spinTime)
			start := time.Now()
			p.Run(8, 8, f)
			spent += time.Since(start)
		}
		b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "run-ns")
	})
}

// How well two workers share chunks of 20 microseconds: ideal is half of one worker's time.
func BenchmarkShare(b *testing.B) {
	for _, workers := range []int{1, 2} {
		p := New(workers)
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				p.Run(8, 8, func(int, int) {
					for start := time.Now(); time.Since(start) < 20*time.Microsecond; {
					}
				})
			}
		})
		p.Close()
	}
}
