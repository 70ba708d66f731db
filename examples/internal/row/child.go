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
	"time"
)

// childKey is the environment variable that makes the program a child; its value is the configuration.
const childKey = "THIMBLE_ROW_CHILD"

// RunChild runs one configuration in a fresh process: the program starts itself again, without arguments, and its
// [ServeChild] gets config, a name or JSON of up to 100 KB. What that returns is decoded into out, a pointer to a Row or
// to a struct that embeds it.
//
// The child's steps show in p (may be nil). Its standard error passes through; if it fails, the error has what it
// reported, or else its last lines. When ctx is done it is killed, and the error wraps the context's.
func RunChild(ctx context.Context, config string, out any, p *Progress) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("row: child %q: %w", config, err)
	}
	r := &relay{p: p, through: p.Print}
	if p == nil {
		r.through = func(b []byte) { _, _ = os.Stderr.Write(b) }
	}
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childKey+"="+config)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, r, 2*time.Second
	if _, err := cmd.StdinPipe(); err != nil { // stays open as long as this process lives: see orphan
		return fmt.Errorf("row: child %q: %w", config, err)
	}
	err = cmd.Run()
	r.close()
	if err != nil {
		return childError(ctx, config, err, r)
	}
	if err := json.Unmarshal(stdout.Bytes(), out); err != nil {
		return fmt.Errorf("row: child %q: wrote %.200q: want a row in JSON (does its main or TestMain call row.ServeChild first?): %w",
			config, stdout.String(), err)
	}
	return nil
}

func childError(ctx context.Context, config string, err error, r *relay) error {
	if ctx.Err() != nil {
		return fmt.Errorf("row: child %q: %w", config, context.Cause(ctx))
	}
	hint := ""
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 0 {
		hint = " (the system kills processes when memory runs out)"
	}
	return fmt.Errorf("row: child %q: %w%s%s", config, err, hint, r.report())
}

// ServeChild returns at once in a program that the user started. In one that [RunChild] started it calls f with the
// configuration, writes what f returns to standard output as JSON, and exits. It is the first line of main, and in a
// test binary, which starts itself again in the same way, of TestMain:
//
//	func TestMain(m *testing.M) {
//		row.ServeChild(serve)
//		os.Exit(m.Run())
//	}
//
// While f runs, os.Stdout is standard error, so that whatever prints does not get between the row and the parent.
// The steps that f tells p show in the parent's progress; p.Start sets how many there are.
func ServeChild(f func(ctx context.Context, config string, p *Progress) (any, error)) {
	config, ok := os.LookupEnv(childKey)
	if !ok {
		return
	}
	os.Unsetenv(childKey) // what the child starts is no child of this kind
	go orphan()
	stdout := os.Stdout
	os.Stdout = os.Stderr
	result, err := f(context.Background(), config, &Progress{w: os.Stderr, child: true})
	if err == nil {
		err = json.NewEncoder(stdout).Encode(result)
	}
	if err != nil {
		text, _ := json.Marshal(err.Error())
		fmt.Fprintf(os.Stderr, errFormat, text)
		os.Exit(1)
	}
	os.Exit(0)
}

// orphan ends the process when its parent is gone, however that came about: standard input is a pipe from the parent,
// which never writes to it.
func orphan() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(3)
}
