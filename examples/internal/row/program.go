package row

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
)

// Main runs a program: f with its arguments, and a context that an interrupt ends. An error is printed and ends the process
// with status 1; flag.ErrHelp, which the flags have answered, ends it well.
func Main(f func(ctx context.Context, args []string, out, errw io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := f(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// PredictPlan is [Row.Predict] from a dry run: the largest peak and arena, and the kinds of the step that has the peak.
func (r *Row) PredictPlan(p *autograd.Plan) {
	worst := slices.MaxFunc(p.Steps, func(a, b autograd.StepPlan) int { return cmp.Compare(a.Peak, b.Peak) })
	r.Predict(p.Peak(), p.Arena(), worst.ByKind)
}
