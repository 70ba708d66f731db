package row

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// childKey is the environment variable that makes the program a child; its value is the configuration.
const childKey = "THIMBLE_ROW_CHILD"

// Measure runs one configuration in a fresh process, and shows it in p as a row of that name: see [RunChild]. What comes back
// has passed [Row.Check].
func Measure[F Figures](ctx context.Context, p *Progress, name string, config any) (f F, err error) {
	p.Start(name, 0)
	if err := RunChild(ctx, p, name, config, &f); err != nil {
		return f, err
	}
	r := f.row()
	if err := r.Check(); err != nil {
		return f, err
	}
	p.Done(r)
	return f, nil
}

// RunChild runs one configuration in a fresh process: the program starts itself again, without arguments, and the function
// that its [ServeChild] names gets config, which travels as JSON of up to 100 KB. What that returns comes back in out, a
// pointer.
//
// The child's steps show in p (may be nil). Its standard error passes through; if it fails, the error has the given name and
// what it reported, or else its last lines. When ctx is done it is told to end, and the error wraps the context's.
func RunChild(ctx context.Context, p *Progress, name string, config, out any) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("row %q: %w", name, err)
	}
	text, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("row %q: %w", name, err)
	}
	r := &relay{p: p, through: p.Print}
	if p == nil {
		r.through = func(b []byte) { _, _ = os.Stderr.Write(b) }
	}
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childKey+"="+string(text))
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, r, patience
	alive, err := cmd.StdinPipe() // stays open as long as this process lives: see orphan
	if err != nil {
		return fmt.Errorf("row %q: %w", name, err)
	}
	cmd.Cancel = alive.Close
	err = cmd.Run()
	r.close()
	if err != nil {
		return childError(ctx, name, err, r)
	}
	if err := json.Unmarshal(stdout.Bytes(), out); err != nil {
		return fmt.Errorf("row %q: its process wrote %.200q: want its figures in JSON (does its main or TestMain call row.ServeChild first?): %w",
			name, stdout.String(), err)
	}
	return nil
}

// patience is how long a child that was told to end has for it.
const patience = 2 * time.Second

func childError(ctx context.Context, name string, err error, r *relay) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("row %q: %w", name, context.Cause(ctx))
	case r.err != "":
		return fmt.Errorf("row %q: %s", name, r.err)
	}
	hint := ""
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 0 {
		hint = " (the system kills processes when memory runs out)"
	}
	return fmt.Errorf("row %q: %w%s%s", name, err, hint, r.lastLines())
}

// ServeChild returns at once in a program that the user started. In one that [RunChild] started it calls run with the
// configuration, sends what run returns to the parent, and exits. It is the first line of main, and in a test binary, which
// starts itself again in the same way, of TestMain:
//
//	func TestMain(m *testing.M) {
//		row.ServeChild(run)
//		os.Exit(m.Run())
//	}
//
// The context ends with the parent, or when the parent's does, or with an interrupt: then run should return, and give back
// what would be left behind. While run runs, os.Stdout is standard error, so that whatever prints does not get between the
// figures and the parent. The steps that run tells p show in the parent's progress; p.Start sets how many there are.
func ServeChild[C, F any](run func(ctx context.Context, c C, p *Progress) (F, error)) {
	text, ok := os.LookupEnv(childKey)
	if !ok {
		return
	}
	os.Unsetenv(childKey) // what the child starts is no child of this kind
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process
	go orphan(stop)
	stdout := os.Stdout
	os.Stdout = os.Stderr
	var c C
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		var f F
		if f, err = run(ctx, c, &Progress{w: os.Stderr, child: true}); err == nil {
			err = json.NewEncoder(stdout).Encode(f)
		}
	}
	if err != nil {
		text, _ := json.Marshal(err.Error())
		fmt.Fprintf(os.Stderr, errFormat, text)
		os.Exit(1)
	}
	os.Exit(0)
}

// orphan ends the run, and soon after it the process, when its parent is gone or wants no more, however that came about:
// standard input is a pipe from the parent, which never writes to it.
func orphan(stop func()) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	time.Sleep(patience)
	os.Exit(3)
}
