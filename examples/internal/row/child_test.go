package row

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChild(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, 1)
	p.Start("row", 0)
	var got wide
	require.NoError(t, RunChild(t.Context(), p, "row", "row", &got))
	require.Equal(t, wide{Row: rows()[0], Extra: Num(7)}, got)
	require.Equal(t, "printed by the way\n", b.String(), "what the child prints goes to standard error, its messages nowhere")
	require.Equal(t, 3, p.steps)
}

// Measure has the row's name and its figures in the progress, and refuses figures that cannot be true.
func TestMeasure(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, 2)
	got, err := Measure[wide](t.Context(), p, "first", "row")
	require.NoError(t, err)
	require.Equal(t, wide{Row: rows()[0], Extra: Num(7)}, got)
	require.Contains(t, b.String(), "[1/2] first: 10.00 MiB peak")
	_, err = Measure[wide](t.Context(), p, "second", "empty")
	require.ErrorContains(t, err, "row: no name")
}

func TestChildFails(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, 1)
	run := func(config string) error { return RunChild(t.Context(), p, "a row", config, &Row{}) }

	err := run("error")
	require.EqualError(t, err, "row \"a row\": no data\nin the folder")
	require.Equal(t, "what went before\n", b.String())

	err = run("panic")
	require.ErrorContains(t, err, `row "a row": exit status 2; its last lines:`)
	require.ErrorContains(t, err, "panic: boom")
	require.Contains(t, b.String(), "panic: boom")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)

	require.ErrorContains(t, run("killed"), "signal: killed (the system kills processes when memory runs out)")
	require.ErrorContains(t, run("text"), `wrote "\"no row\"\n": want its figures in JSON`)
	require.ErrorContains(t, run("nonsense"), `config "nonsense"`)
}

// The child ends with the context, and RunChild says so: by itself, or if it does not listen, by force.
func TestChildIsTold(t *testing.T) {
	for _, config := range []string{"sleep", "deaf"} {
		ctx, cancel := context.WithCancel(t.Context())
		asleep := make(writes, 2)
		errs := make(chan error)
		go func() { errs <- RunChild(ctx, NewProgress(asleep, 1), "a row", config, &Row{}) }()
		<-asleep
		cancel()
		select {
		case err := <-errs:
			require.ErrorIs(t, err, context.Canceled)
			require.Len(t, asleep, map[string]int{"sleep": 1, "deaf": 0}[config], config)
		case <-time.After(20 * time.Second):
			require.Fail(t, "the child goes on")
		}
	}
}

// A child whose parent is gone, which closes its standard input, ends by itself.
func TestChildOfNobody(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	for config, code := range map[string]int{"sleep": 1, "deaf": 3} {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), childKey+`="`+config+`"`)
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		require.NoError(t, stdin.Close())
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, code, exit.ExitCode(), config)
	}
}

// writes tells of each write for which it has room.
type writes chan struct{}

func (w writes) Write(b []byte) (int, error) {
	select {
	case w <- struct{}{}:
	default:
	}
	return len(b), nil
}

// Law M5: the resident set follows arena bytes within 10% or 8 MiB, whatever the process did before and does beside.
func TestResidentFollowsArena(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector the arena lies on Go's heap, with shadow memory beside it")
	}
	for _, config := range []string{"train 1", "train 20000000", "train 100000000"} {
		var r Row
		require.NoError(t, RunChild(t.Context(), nil, config, config, &r))
		if r.RSS == nil {
			t.Skip("this system does not tell the resident set")
		}
		t.Logf("arena %s, resident %s", Bytes(*r.Arena), Bytes(*r.RSS))
		require.InDelta(t, *r.Arena, *r.RSS, max(float64(*r.Arena)/10, 8<<20))
	}
}
