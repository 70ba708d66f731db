package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/memory/report"
)

// browsers are the names under which Chromium is found.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"}

// browser is a page open in a headless browser.
type browser struct {
	t   testing.TB
	ctx context.Context
	say chan string // what the page writes to the console, exceptions and failed requests too
}

// open shows a page from a file, without network.
func open(t testing.TB, page []byte) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the page does not depend on build tags or the race detector")
	}
	var path string
	for _, name := range browsers {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skipf("no browser: none of %s is installed (Debian: apt-get install chromium)", strings.Join(browsers, ", "))
	}
	file := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(file, page, 0o644))

	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1400, 1500),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"), chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx, say: make(chan string, 1000)}
	console := chromedp.Console(ctx)
	go func() {
		for m, err := range console {
			if err != nil {
				return // the test has ended
			}
			b.say <- m.Text
		}
	}()
	b.do(chromedp.Navigate((&url.URL{Scheme: "file", Path: file}).String()), chromedp.WaitReady("html[data-ready]"))
	return b
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, actions...))
}

// eval gives the value of an expression.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err)
	return v
}

// quiet checks that the page has complained about nothing: all that it wrote is what is written now.
func (b *browser) quiet() {
	b.t.Helper()
	eval[any](b, `console.log("and that is all")`)
	select {
	case said := <-b.say:
		require.Equal(b.t, "and that is all", said)
	case <-b.ctx.Done():
		b.t.Fatal("the page writes nothing")
	}
}

// picture is where a plot is, and what part of the axis and how many bytes it shows.
type picture struct {
	Left, Top, Width, Height, From, To, Bytes float64
	X, Y                                      float64 // of the box, in the window
}

func (b *browser) picture(name string) (p picture) {
	b.t.Helper()
	text := eval[string](b, fmt.Sprintf(`(() => { const e = document.querySelector(".plot.%s"), r = e.getBoundingClientRect(); return JSON.stringify({...JSON.parse(e.dataset.plot), x: r.x, y: r.y}); })()`, name))
	require.NoError(b.t, json.Unmarshal([]byte(text), &p))
	return p
}

// hover moves the mouse to a place of the axis and a height in bytes, and gives the number of the buffer that is shown then,
// and the text.
func (b *browser) hover(p picture, at, bytes float64) (id uint64, text string) {
	b.t.Helper()
	x := p.X + p.Left + (at-p.From)/(p.To-p.From)*p.Width
	y := p.Y + p.Top + (1-bytes/p.Bytes)*p.Height
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	id, _ = strconv.ParseUint(eval[string](b, `document.querySelector(".tip").hidden ? "" : document.querySelector(".tip").dataset.tensor`), 10, 64)
	return id, eval[string](b, `document.querySelector(".tip").innerText`)
}

// click presses the button with that text.
func (b *browser) click(text string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.Search(fmt.Sprintf(`//button[starts-with(., %q)]`, text))))
}

func htmlOf(t testing.TB, rec *report.Recording) []byte {
	t.Helper()
	var out strings.Builder
	require.NoError(t, rec.WriteHTML(&out, "A step"))
	return []byte(out.String())
}

// states are the indexes of the events that lead to the states of the page, the first of them -1.
func states(rec *report.Recording) []int {
	list := []int{-1}
	for i := range rec.Events {
		switch rec.Events[i].Act {
		case memory.Alloc, memory.Free, memory.SetKind:
			list = append(list, i)
		}
	}
	return list
}

// The page opens without complaints; its numbers are the device's.
func TestPageNumbers(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 2, micro: 2, recompute: true, limit: 4 << 20})
	rec := r.record(report.RecordConfig{})
	st := r.dev.Stats()
	rec.Predicted = st.Peak
	b := open(t, htmlOf(t, rec))
	b.quiet()
	require.EqualValues(t, st.Peak, eval[float64](b, `timelines[0].rec.peak`))
	require.EqualValues(t, st.ArenaPeak, eval[float64](b, `timelines[0].rec.arenaPeak`))
	by := eval[[]float64](b, `timelines[0].rec.bytes.map(b => b[timelines[0].rec.peakAt])`)
	for _, k := range memory.Kinds() {
		require.EqualValues(t, st.PeakByKind[k], by[k], "%s", k)
	}
	live, at := eval[[]float64](b, `Array.from(timelines[0].rec.live)`), states(rec)
	require.Len(t, live, len(at))
	for s, i := range at[1:] {
		require.EqualValues(t, rec.Events[i].Live, live[s+1], "state %d", s+1)
	}
	text := eval[string](b, `document.body.innerText`)
	require.Contains(t, text, strings.ReplaceAll(comma(st.Peak), "_", ","))
	require.Contains(t, text, "exact", "as foretold")

	largest := atPeak(t, rec)[0]
	for _, h := range atPeak(t, rec) {
		if h.Bytes > largest.Bytes {
			largest = h
		}
	}
	require.Contains(t, eval[string](b, `document.querySelector(".largest tbody tr").innerText`), largest.Site.Op)
	require.EqualValues(t, len(atPeak(t, rec)), eval[float64](b, `(document.querySelector(".more").click(), document.querySelectorAll(".largest tbody tr").length)`))
	b.quiet()
}

// comma writes a number with commas.
func comma(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// stackOrder is the order of kinds from below.
var stackOrder = []memory.Kind{memory.Param, memory.OptState, memory.Other, memory.Input, memory.Staging, memory.Grad, memory.Activation, memory.CastCopy, memory.Temporary, memory.Scratch}

// stacked gives the tensors alive after event at, from below: kind on kind, in the order in which they became of it.
func stacked(tensors []report.Tensor, at int) (list []*report.Tensor) {
	for _, k := range stackOrder {
		var of []*report.Tensor
		for i := range tensors {
			if t := &tensors[i]; t.Alive(at) && t.Kind(at) == k {
				of = append(of, t)
			}
		}
		since := func(t *report.Tensor) (s int) {
			for _, c := range t.Kinds {
				if c.At <= at {
					s = c.At
				}
			}
			return s
		}
		for i := range of { // insertion sort: stable, for those that were there from the beginning
			for j := i; j > 0 && since(of[j]) < since(of[j-1]); j-- {
				of[j], of[j-1] = of[j-1], of[j]
			}
		}
		list = append(list, of...)
	}
	return list
}

// The mouse over a place of the stack, or of the arena, shows the tensor that is there by the recording, with what is known
// about it.
func TestPageHover(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 1, limit: 64 << 20})
	r.run()
	rec := r.record(report.RecordConfig{})
	tensors, err := rec.Tensors()
	require.NoError(t, err)
	b := open(t, htmlOf(t, rec))
	b.click("events")
	stack, arena, at := b.picture("stack"), b.picture("map"), states(rec)
	require.EqualValues(t, len(at), stack.To)
	checked := 0
	for s := 3; s < len(at); s += len(at) / 6 {
		var y float64
		for _, ten := range stacked(tensors, at[s]) {
			n := float64(ten.Bytes)
			if n*stack.Height/stack.Bytes > 4 { // visible
				id, text := b.hover(stack, float64(s)+0.5, y+n/2)
				require.Equal(t, ten.ID, id, "state %d, height %v: %s, shown:\n%s", s, y+n/2, ten.Site, text)
				b.says(text, ten)
				checked++
			}
			y += n
			if n*arena.Height/arena.Bytes > 4 {
				id, text := b.hover(arena, float64(s)+0.5, float64(ten.Addr)+n/2)
				require.Equal(t, ten.ID, id, "state %d, address %d: shown:\n%s", s, ten.Addr, text)
			}
		}
		id, _ := b.hover(stack, float64(s)+0.5, y+(stack.Bytes-y)/2)
		require.Zero(t, id, "above the stack there is nothing")
	}
	require.Greater(t, checked, 25)
	b.quiet()
}

// says checks what is said about a tensor.
func (b *browser) says(text string, ten *report.Tensor) {
	b.t.Helper()
	dtype, shape, _ := strings.Cut(strings.TrimSuffix(ten.Spec, "]"), "[")
	for _, want := range []string{ten.Site.Op, ten.Site.Scope, comma(ten.Bytes), dtype, strings.ReplaceAll(shape, " ", " × ")} {
		require.Contains(b.t, text, want)
	}
	for _, w := range ten.Why { // "saved by gelu in gpt: input 0" shares its line with another entry of gelu's
		for _, part := range strings.Split(w.Text, ": ") {
			require.Contains(b.t, text, part)
		}
	}
}

// Kinds can be hidden, ranges zoomed into, and all of it had back.
func TestPageZoomAndToggle(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 1})
	rec := r.record(report.RecordConfig{})
	b := open(t, htmlOf(t, rec))
	b.click("events")
	whole := b.picture("stack")

	b.click("param")
	b.click("optstate")
	less := b.picture("stack")
	st := r.dev.Stats()
	require.Less(t, less.Bytes, whole.Bytes)
	at := eval[float64](b, `timelines[0].rec.peakAt`) + 0.5
	id, text := b.hover(less, at, 1)
	require.NotZero(t, id)
	require.NotContains(t, text, "parameter ")
	require.NotEqual(t, st.Peak, st.PeakByKind[memory.Param])
	b.click("param")
	b.click("optstate")

	p := b.picture("stack")
	x := func(f float64) float64 { return p.X + p.Left + f*p.Width }
	y := p.Y + p.Top + p.Height/2
	b.do(chromedp.MouseEvent(chromedp.MousePressed, x(0.25), y, chromedp.ButtonLeft, chromedp.ClickCount(1)),
		chromedp.MouseEvent(chromedp.MouseMoved, x(0.4), y, chromedp.ButtonLeft),
		chromedp.MouseEvent(chromedp.MouseMoved, x(0.5), y, chromedp.ButtonLeft),
		chromedp.MouseEvent(chromedp.MouseReleased, x(0.5), y, chromedp.ButtonLeft, chromedp.ClickCount(1)))
	zoomed := b.picture("stack")
	require.InDelta(t, 0.25*whole.To, zoomed.From, 0.02*whole.To)
	require.InDelta(t, 0.5*whole.To, zoomed.To, 0.02*whole.To)
	require.Equal(t, b.picture("map").From, zoomed.From, "both pictures show the same")
	for _, axis := range []string{"ops", "time", "events"} {
		b.click(axis)
		require.Less(t, b.picture("stack").To-b.picture("stack").From, eval[float64](b, `timelines[0].end`), axis)
	}
	b.click("all")
	require.Equal(t, whole, b.picture("stack"))
	b.quiet()
}

// A page with several recordings, tables and pictures; and the recordings of nothing, and of what has been there all along.
func TestPageOfSections(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 1})
	rec := r.record(report.RecordConfig{})
	var img, out bytes.Buffer
	require.NoError(t, rec.WritePNG(&img, report.PictureConfig{}))
	require.NoError(t, report.WriteHTML(&out, report.Page{Title: "Ladder </script>", Lead: "<b>lead</b>", Sections: []report.Section{
		{Title: "Table", Text: "one & two", Pre: report.Summary(r.dev)},
		{Title: "Picture", PNG: img.Bytes(), HTML: `<table id="own"><tr><td>own</td></tr></table>`},
		{Title: "First", Recording: rec},
		{Title: "Empty", Recording: &report.Recording{}},
		{Title: "Held", Recording: &report.Recording{Held: []memory.Holder{{ID: 1, Bytes: 100, Kind: memory.Param, Site: memory.Site{Scope: "</script><script>alert(1)</script>"}}}}},
	}}))
	b := open(t, out.Bytes())
	require.Equal(t, "Ladder </script>", eval[string](b, `document.querySelector("h1").innerText`))
	require.Equal(t, "<b>lead</b>", eval[string](b, `document.querySelector(".lead").innerText`))
	require.Equal(t, "own", eval[string](b, `document.querySelector("#own").innerText`))
	require.Positive(t, eval[float64](b, `document.querySelector("img").naturalWidth`))
	require.Contains(t, eval[string](b, `document.querySelector("pre").innerText`), "Thimble memory summary")
	require.EqualValues(t, 3, eval[float64](b, `timelines.length`))
	require.EqualValues(t, 100, eval[float64](b, `timelines[2].rec.peak`))
	b.quiet()
}

// A step of 10,000 events is a page of less than 5 MB. How soon it is there is logged: less than 2 s is the aim.
func TestPageOfTenThousandEvents(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 24, micro: 3, recompute: true})
	r.run()
	rec := r.record(report.RecordConfig{})
	require.Greater(t, len(rec.Events), 10_000)
	page := htmlOf(t, rec)
	require.Less(t, len(page), 5_000_000)
	b := open(t, page)
	t.Logf("%d events, %d bytes, drawn %s ms after the page was asked for", len(rec.Events), len(page), eval[string](b, `document.documentElement.dataset.ready`))
	require.EqualValues(t, r.dev.Stats().Peak, eval[float64](b, `timelines[0].rec.peak`))
	p := b.picture("stack")
	id, _ := b.hover(p, p.To/2, 1)
	require.NotZero(t, id)
	b.quiet()
}
