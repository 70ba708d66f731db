package report_test

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/memory/report"
)

// The box is closed on every line, 75 characters wide, and says what failed and what the limit leaves.
func TestSummary(t *testing.T) {
	d, err := memory.NewDevice(memory.Config{Limit: 1 << 20, Name: "host"})
	require.NoError(t, err)
	w, err := d.Alloc(256<<10, memory.Param, memory.Site{})
	require.NoError(t, err)
	x, err := d.Alloc(256<<10, memory.Temporary, memory.Site{})
	require.NoError(t, err)
	_, err = d.Alloc(1<<20, memory.Temporary, memory.Site{})
	require.Error(t, err)
	_, ok := d.TryAlloc(1<<20, memory.Staging, memory.Site{})
	require.False(t, ok)
	x.Release()

	got := report.Summary(d)
	for _, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
		require.Regexp(t, `^\|.{73}\|$`, line)
	}
	for _, want := range []string{
		`device host`, `OOMs: 1 `, `refused read-ahead: 1 `,
		`\| Live +\| +256.0 KiB \| +512.0 KiB \| +512.0 KiB \| +256.0 KiB \|`,
		`\| +param +\| +256.0 KiB \| +256.0 KiB \|`,
		`\| +temporary +\| +0 B \| +256.0 KiB \|`,
		`\| Arena +\| +256.0 KiB \| +512.0 KiB \|`,
		`\| Arena of the limit +\| +25.0 % \| +50.0 % \|`,
		`\| Reserved +\| +512.0 KiB \| +512.0 KiB \|`,
		`\| Buffers +\| +1 \| +2 \| +2 \| +1 \|`,
	} {
		require.Regexp(t, want, got)
	}
	require.NotContains(t, got, "grad", "kinds of which there is nothing are left out")
	w.Release()
	require.NoError(t, d.Close())
	require.Contains(t, report.Summary(d), "Arena over live     |          - ")
}

// lines is a writer that tells of each line.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
	one chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.all.Write(b)
	select {
	case l.one <- struct{}{}:
	default:
	}
	return n, err
}

// Watch writes while the device works, and a last line when it is stopped; then the trace is who had it before.
func TestWatch(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 1, limit: 1 << 26})
	w := &lines{one: make(chan struct{}, 1)}
	var events int
	r.dev.SetTrace(func(memory.Event) { events++ })
	stop := report.Watch(r.dev, w, time.Millisecond)
	r.run()
	<-w.one // some line
	require.NoError(t, r.sess.Step(t.Context(), r.step))
	stop()
	stop()
	require.Positive(t, events)
	got := strings.Split(strings.TrimSuffix(w.all.String(), "\n"), "\n")
	form := regexp.MustCompile(`^ +\d+ s  live [\d.]+ [KM]iB  arena [\d.]+ [KM]iB of 64.0 MiB \([\d.]+ %\)(  (forward|backward|step))?$`)
	for _, line := range got {
		require.Regexp(t, form, line)
	}
	require.NotNil(t, r.dev.SetTrace(nil))
}
