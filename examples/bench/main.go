// Bench times one training step of a model and prints what it took: time by phase, rate, arithmetic, memory.
//
//	go run ./examples/bench                                   a small GPT, on all processors
//	go run ./examples/bench -model mlp -threads 1             another model; -help lists them
//	go run ./examples/bench -model vit -saved                 what backward keeps, tensor by tensor
//
// The models are those of docs/performance.md, which compares them with PyTorch. Data is random and made before the
// clock starts; a step is forward, mean cross-entropy, backward, and AdamW over every parameter.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/examples/internal/row"
)

func main() { row.Main(bench) }

// settings say what to time.
type settings struct {
	model   *benchModel
	batch   int // examples a step
	threads int
	steps   int // that are timed
	infer   bool
	blocks  bool // recomputed in backward
	saved   bool
	json    bool
}

func parse(args []string, errw io.Writer) (c settings, err error) {
	f := row.NewFlags("bench", errw)
	var model string
	var layers, tokens int
	f.OneOf(&model, "model", models[0].name, row.Names(models), "what is trained")
	f.Int(&c.batch, "batch", 0, 0, "examples a step (default: the model's)")
	f.Int(&layers, "layers", 0, 0, "blocks of a GPT (default: the model's)")
	f.Int(&tokens, "tokens", 0, 0, "tokens a sequence of a GPT (default: the model's)")
	f.Int(&c.threads, "threads", 0, 0, "workers (default: all processors)")
	f.Int(&c.steps, "steps", 5, 1, "steps to time, after two that are not")
	f.BoolVar(&c.infer, "infer", false, "forward pass only, without gradients")
	f.BoolVar(&c.blocks, "checkpoint", false, "keep only the inputs of blocks, and run each again in backward")
	f.BoolVar(&c.saved, "saved", false, "list what backward keeps of a step instead of timing one")
	f.JSON(&c.json)
	if err := f.Parse(args); err != nil {
		return c, err
	}
	m, err := row.Find("bench: model", model, models)
	if err != nil {
		return c, err
	}
	if c.model, err = m.sized(layers, tokens); err != nil {
		return c, err
	}
	c.batch = cmp.Or(c.batch, c.model.batch)
	switch {
	case c.blocks && !c.model.blocks:
		return c, fmt.Errorf("bench: -checkpoint with -model %s: want a model of blocks", c.model.name)
	case c.saved && (c.infer || c.json):
		return c, errors.New("bench: -saved lists what a training step keeps: want neither -infer nor -json with it")
	}
	return c, nil
}

// figures are the row of the run and what sets it apart. RSS is the highest resident set of the whole process, as the
// peers' figures are. Times are medians, in milliseconds.
type figures struct {
	row.Row
	Model     string     `json:"model"`
	Batch     int        `json:"batch"`
	Threads   int        `json:"threads"`
	FwdMS     row.Number `json:"fwd_ms"`
	BwdMS     row.Number `json:"bwd_ms"`
	OptMS     row.Number `json:"opt_ms"`
	Rate      row.Number `json:"rate"` // tokens or images a second
	GFLOPS    row.Number `json:"gflops"`
	LossFirst row.Number `json:"loss_first"`
	LossLast  row.Number `json:"loss_last"`
}

// bench runs the program.
func bench(ctx context.Context, args []string, out, errw io.Writer) error {
	c, err := parse(args, errw)
	if err != nil {
		return err
	}
	if c.saved {
		return printSaved(ctx, c, out)
	}
	f, err := run(ctx, c, row.NewProgress(errw, 1))
	if err != nil {
		return err
	}
	if c.json {
		return json.NewEncoder(out).Encode(f)
	}
	return report(out, c, f)
}

func report(out io.Writer, c settings, f figures) error {
	_, err := fmt.Fprintf(out, `%s, batch %d, %d threads; %s

step      %9s ms   forward %s, backward %s, optimizer %s
rate      %9s %s/s
          %9s GFLOP/s in matrix products
peak      %9s      predicted %s
resident  %9s      of the whole process
loss      %9s -> %s
`, c.model.name, f.Batch, f.Threads, thimble.Features(),
		f.StepMS.Format(1, ""), f.FwdMS.Format(1, ""), f.BwdMS.Format(1, ""), f.OptMS.Format(1, ""),
		f.Rate.Format(1, ""), c.model.unit, f.GFLOPS.Format(1, ""),
		row.Bytes(f.Peak()), row.Bytes(*f.PredictedPeak), resident(f.RSS), f.LossFirst.Format(4, ""), f.LossLast.Format(4, ""))
	return err
}

func resident(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return row.Bytes(*n)
}

// printSaved runs one step and lists what its graph keeps between forward and backward.
func printSaved(ctx context.Context, c settings, out io.Writer) (err error) {
	j, err := start(c)
	defer j.ending.Run(&err)
	if err != nil {
		return err
	}
	var text string
	err = j.sess.Step(ctx, func(s *autograd.Scope) error {
		text = autograd.FormatSaved(autograd.Saved(j.loss(s)))
		return nil
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}
