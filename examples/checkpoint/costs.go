package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/tensor"
)

// costs measures the blocks, or reads what an earlier run has measured. Times differ a little from run to run, so that of two
// schedules that are nearly as fast now one and now the other wins; from the same costs always the same schedule is made.
func (t *trainer) costs() ([]checkpoint.Cost, error) {
	blocks := checkpoint.LineOf(t.model.Blocks, tensor.Of(tensor.Float32, t.Batch, t.Context, t.Dim))
	if t.Costs == "" {
		return checkpoint.Measure(t.sess, blocks)
	}
	name := filepath.Join(t.Costs, fmt.Sprintf("%d.json", t.Depth))
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return measureInto(name, func() ([]checkpoint.Cost, error) { return checkpoint.Measure(t.sess, blocks) })
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: costs: %w", err)
	}
	var costs []checkpoint.Cost
	if err := json.Unmarshal(text, &costs); err != nil {
		return nil, fmt.Errorf("checkpoint: costs in %s: %w", name, err)
	}
	if n, in := len(costs), blocks.Input.Bytes(); n != t.Depth || costs[0].In != in {
		return nil, fmt.Errorf("checkpoint: costs in %s are those of other blocks: want %d blocks that take %d bytes; remove the file to measure again", name, t.Depth, in)
	}
	return costs, nil
}

// measureInto keeps what measure gives in a file.
func measureInto(name string, measure func() ([]checkpoint.Cost, error)) ([]checkpoint.Cost, error) {
	costs, err := measure()
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(costs, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		return nil, fmt.Errorf("checkpoint: costs: %w", err)
	}
	return costs, nil
}
