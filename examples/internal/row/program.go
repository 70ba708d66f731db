package row

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// interrupted is the exit status of a program that Ctrl-C ended, as shells have it: 128 and the number of the signal.
const interrupted = 128 + 2

// Main runs a program: f with its arguments, and a context that ends with an interrupt (a second one ends the process at
// once). An error is printed and ends the process with status 1; flag.ErrHelp, which the flags have answered, ends it well.
func Main(f func(ctx context.Context, args []string, out, errw io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := f(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "interrupted")
		os.Exit(interrupted)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Draw has draw write a picture or the like into a file and says so on errw, unless path is empty.
func Draw(errw io.Writer, what, path string, draw func(path string) error) error {
	if path == "" {
		return nil
	}
	if err := draw(path); err != nil {
		return err
	}
	fmt.Fprintf(errw, "%s: %s\n", what, path)
	return nil
}
