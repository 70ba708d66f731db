package row

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/thimble-ml/thimble/memory"
)

// TestMain makes the test binary serve as its own child.
func TestMain(m *testing.M) {
	ServeChild(serve)
	os.Exit(m.Run())
}

// wide is a row with a figure of the example's own.
type wide struct {
	Row
	Extra Number `json:"extra"`
}

// serve is the child of the tests.
func serve(ctx context.Context, config string, p *Progress) (any, error) {
	switch config {
	case "row":
		p.Start("row", 3)
		for i := range 3 {
			p.Step(i+1, 1/float64(i+1))
		}
		p.Done(Row{})
		fmt.Println("printed by the way")
		return wide{Row: rows()[0], Extra: Num(7)}, nil
	case "error":
		fmt.Fprintln(os.Stderr, "what went before")
		return nil, errors.New("no data\nin the folder")
	case "panic":
		panic("boom")
	case "sleep":
		fmt.Fprintln(os.Stderr, "asleep")
		<-ctx.Done()
		fmt.Fprintln(os.Stderr, "woken")
		return nil, ctx.Err()
	case "deaf":
		fmt.Fprintln(os.Stderr, "asleep")
		time.Sleep(time.Hour)
	case "empty":
		return wide{}, nil
	case "text":
		return "no row", nil
	case "killed":
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		time.Sleep(time.Hour)
	}
	var bytes int64
	if n, _ := fmt.Sscanf(config, "train %d", &bytes); n == 1 {
		return trained(bytes)
	}
	return nil, fmt.Errorf("config %q", config)
}

// trained is a row of a run that reads a data set of 40 MiB, makes garbage on the way and at every step, and takes so
// many bytes from a device.
func trained(bytes int64) (Row, error) {
	data := make([]byte, 40<<20)
	touch(data)
	touch(make([]byte, 100<<20))
	meter := StartResident()
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		return Row{}, err
	}
	defer dev.Close()
	b, err := dev.Alloc(bytes, memory.Param, memory.Site{})
	if err != nil {
		return Row{}, err
	}
	touch(b.Bytes())
	for range 100 {
		garbage = make([]byte, 100<<10)
		touch(garbage)
		touch(b.Bytes())
		time.Sleep(time.Millisecond)
	}
	b.Release()
	r := Row{Name: "trained", Steps: 1, RSS: meter.Peak()}
	r.Measure(dev.Stats())
	touch(data)
	return r, nil
}

var garbage []byte

func touch(b []byte) {
	for i := 0; i < len(b); i += 1 << 10 {
		b[i] = 1
	}
}

// rows are three rows: with all figures, of another training, and of a dry run.
func rows() []Row {
	base := Row{Name: "baseline", RSS: new(int64(11 << 20)), StepMS: Num(12.345), Loss: Num(.31234), Accuracy: Num(.9781), Steps: 600}
	base.Predict(10<<20, 10<<20+64, parts(4<<20, 3<<20, 3<<20))
	base.Measure(memory.Stats{Peak: 10 << 20, ArenaPeak: 10<<20 + 64, PeakByKind: parts(4<<20, 3<<20, 3<<20)})
	other := Row{Name: "SGD, cosine", StepMS: Num(9), Loss: Num(.5), Accuracy: Num(.95), Steps: 600, Note: "other training"}
	other.Predict(7<<20, 7<<20, parts(4<<20, 0, 3<<20))
	other.Measure(memory.Stats{Peak: 7 << 20, ArenaPeak: 7 << 20, PeakByKind: parts(4<<20, 0, 3<<20)})
	dry := Row{Name: "micro-batches"}
	dry.Predict(1500<<10, 1500<<10, parts(1000<<10, 0, 500<<10))
	return []Row{base, other, dry}
}

func parts(param, state, activation int64) (k [memory.NumKinds]int64) {
	k[memory.Param], k[memory.OptState], k[memory.Activation] = param, state, activation
	return k
}
