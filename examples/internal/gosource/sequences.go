package gosource

import (
	"context"
	"fmt"

	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

// Batches are those of a training that uses a part of a text once.
type Batches struct {
	Steps   int // updates
	Batch   int // sequences an update
	Context int // bytes a sequence
	Seed    uint64
}

// Open begins an epoch of shuffled sequences of the text, and the bytes that follow each: [Batch Context], twice. A text that
// is too short is an error. End closes it.
func (b Batches) Open(ctx context.Context, dev *memory.Device, text *data.Text, end *row.Cleanup) (*data.Epoch, error) {
	sequences, err := data.Sequences(text.Train, b.Context)
	if err != nil {
		return nil, err
	}
	if n := sequences.Len(); b.Steps*b.Batch > n {
		return nil, fmt.Errorf("gosource: %d steps of batch %d: the text has only %d sequences of %d bytes", b.Steps, b.Batch, n, b.Context)
	}
	loader, err := data.NewLoader(dev, sequences, data.LoaderConfig{Batch: b.Batch, Shuffle: true, Seed: b.Seed})
	if err != nil {
		return nil, err
	}
	epoch, err := loader.Open(ctx, 0)
	if err == nil {
		end.Add(func() error { epoch.Close(); return nil })
	}
	return epoch, err
}
