package train_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/train"
)

// kills is how often the training is killed; the long form kills it a hundred times.
var kills = 6

// victimDir is the folder of the state that a test binary, started again, is to train from. See TestVictim.
const victimDir = "THIMBLE_TEST_VICTIM"

// TestVictim is not a test but the process that TestKilled kills: it trains, and saves after every micro-batch.
func TestVictim(t *testing.T) {
	dir := os.Getenv(victimDir)
	if dir == "" {
		t.Skip("runs within TestKilled")
	}
	path := filepath.Join(dir, "state")
	g := newGPT(t, options{workers: 2})
	if _, err := train.Load(path, g.state()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, "trains")
	g.run(t, killedLength, func() { require.NoError(t, train.Save(path, g.state())) })
	g.end(t)
}

const killedLength = 200

// S1, S2: a process that is killed at any instant, again and again, leaves a state from which the training goes on, and ends where
// one ends that nobody killed, to the bit.
func TestKilled(t *testing.T) {
	if os.Getenv(victimDir) != "" {
		t.Skip("is TestKilled")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	prints := killedPrints(t)
	last, moved := 0, 0
	for range kills {
		victim(t, dir, time.Duration(random.Int64N(int64(60*time.Millisecond))))
		g := newGPT(t, options{})
		if _, err := train.Load(path, g.state()); !errors.Is(err, fs.ErrNotExist) || last > 0 {
			require.NoError(t, err)
		}
		require.Equal(t, prints[g.count.Micro], g.print(t), "after %d", g.count.Micro)
		require.GreaterOrEqual(t, g.count.Micro, last, "a state was lost")
		if g.count.Micro > last {
			moved++
		}
		if last = g.count.Micro; last == killedLength { // begin again, there are kills left
			require.NoError(t, os.Remove(path))
			last = 0
		}
		g.end(t)
	}
	t.Logf("killed %d times, %d of them after progress", kills, moved)
	require.NotZero(t, moved)
	victim(t, dir, time.Hour)
	g := newGPT(t, options{})
	defer g.end(t)
	_, err := train.Load(path, g.state())
	require.NoError(t, err)
	require.Equal(t, killedLength, g.count.Micro)
	require.Equal(t, prints[killedLength], g.print(t))
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, 1, "what the killed ones left was removed")
}

// killedPrints is the fingerprint after every micro-batch of the training that nobody kills.
func killedPrints(t *testing.T) []uint64 {
	g := newGPT(t, options{})
	defer g.end(t)
	prints := []uint64{g.print(t)}
	g.run(t, killedLength, func() { prints = append(prints, g.print(t)) })
	return prints
}

// victim runs a training in a process of its own, and kills it after it has trained for so long.
func victim(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestVictim$")
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	var out strings.Builder
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, _ = stderr.Read(make([]byte, 1)) // it has begun, or has ended
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err = <-done:
		require.NoError(t, err, out.String())
	case <-time.After(after):
		require.NoError(t, cmd.Process.Kill())
		err = <-done
		require.True(t, err == nil || strings.Contains(err.Error(), "killed"), "%v: %s", err, out.String())
	}
}
