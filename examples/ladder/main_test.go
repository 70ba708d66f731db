package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

func TestMain(m *testing.M) {
	row.ServeChild(run)
	os.Exit(m.Run())
}

// skipIfShort leaves out whole trainings: what the race detector and the like would see in them, other tests show.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a whole training")
	}
}

// rowsOf runs the program with -json and gives its rows by name, and their names.
func rowsOf(t *testing.T, args ...string) (rows map[string]row.Row, names []string) {
	t.Helper()
	var out, errw bytes.Buffer
	chart := filepath.Join(t.TempDir(), "chart.png")
	require.NoError(t, ladder(context.Background(), append(args, "-json", "-chart", chart), &out, &errw), "%s", errw.String())
	list, err := row.ReadJSON(&out) // one array, and nothing else
	require.NoError(t, err)
	require.FileExists(t, chart)
	rows = map[string]row.Row{}
	for _, r := range list {
		require.Equal(t, *r.PredictedPeak, *r.MeasuredPeak, r.Name)
		require.Equal(t, *r.MeasuredPeak, r.ByKind.Sum())
		rows[r.Name], names = r, append(names, r.Name)
	}
	return rows, names
}

func namesOf(t *testing.T, model, name string) (names []string) {
	t.Helper()
	want, err := findTable(model, name)
	require.NoError(t, err)
	for _, r := range want.rungs {
		names = append(names, r.name)
	}
	return names
}

// TestQuick is the README's command: what is predicted is what is measured, to the byte, the resident set follows the
// arena (law M5), each rung takes less than the one it builds on, those that move or recompute change no bit, and the README
// shows these figures.
func TestQuick(t *testing.T) {
	skipIfShort(t)
	rows, names := rowsOf(t, "-quick")
	require.Equal(t, namesOf(t, "vit", "stack"), names)
	ladder := tablesFor("vit")[0].rungs
	for i, rung := range ladder {
		r := rows[rung.name]
		requireM5(t, r)
		require.Equal(t, 3, r.Steps)
		_, has := r.Accuracy.Value()
		require.False(t, has)
		if i == 0 {
			continue
		}
		above := rows[under(ladder[:i]).name]
		if rung.kind&side == 0 {
			require.Less(t, r.Peak(), above.Peak(), "%s is no rung", r.Name)
		}
		if rung.name == "all-adamw" {
			above = rows["bf16"]
		}
		if rung.kind&exact != 0 {
			require.Equal(t, above.Loss, r.Loss, "%s changed a bit", r.Name)
		}
	}
	base, all := rows["baseline"], rows["all-adamw"]
	require.Greater(t, float64(base.ByKind[memory.Activation]), 0.8*float64(base.Peak()), "mostly activations")
	first, _ := base.Loss.Value()
	second, _ := rows["micro-batches"].Loss.Value()
	require.InDelta(t, first, second, 1e-4*first, "micro-batches change rounding only")
	for _, name := range []string{"bf16-autocast", "fp16-autocast", "bf16"} {
		rounded, _ := rows[name].Loss.Value()
		require.InDelta(t, first, rounded, 0.01*first, name)
	}
	require.Less(t, 20*all.Peak(), base.Peak(), "AdamW too in a twentieth")
	requireInReadme(t, rows)
}

func requireM5(t *testing.T, r row.Row) {
	t.Helper()
	if r.RSS == nil { // a system that does not tell
		return
	}
	slack := max(*r.Arena/10, 8<<20)
	require.InDelta(t, *r.Arena, *r.RSS, float64(slack), "%s: resident set against arena", r.Name)
}

// requireInReadme fails when the README's table has other byte figures than the program.
func requireInReadme(t *testing.T, rows map[string]row.Row) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, r := range rows {
		line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(r.Name) + ` .*MiB.*$`).FindString(string(text))
		require.NotEmpty(t, line, "README.md has no line for %s", r.Name)
		want := []string{row.Bytes(*r.PredictedPeak), row.Bytes(*r.MeasuredPeak), row.Bytes(*r.Arena)}
		for _, w := range want {
			require.Contains(t, line, w, "README.md is stale: run go run ./examples/ladder -quick")
		}
	}
}

// Each technique alone takes what it is for from the baseline, and those that move or recompute change no bit.
func TestAlone(t *testing.T) {
	skipIfShort(t)
	rows, names := rowsOf(t, "-model", "gpt", "-table", "alone", "-steps", "2", "-batch", "16")
	require.Equal(t, namesOf(t, "gpt", "alone"), names)
	base := rows["baseline"]
	for _, rung := range tablesFor("gpt")[1].rungs {
		if rung.kind&exact != 0 {
			require.Equal(t, base.Loss, rows[rung.name].Loss, rung.name)
		}
	}
	falls := func(name string, by int64, kinds ...memory.Kind) {
		t.Helper()
		var before, after int64
		for _, k := range kinds {
			before, after = before+base.ByKind[k], after+rows[name].ByKind[k]
		}
		require.Less(t, by*after, before, name)
	}
	falls("fused-head-alone", 1, memory.Activation, memory.Temporary)
	falls("dear-only-alone", 1, memory.Activation)
	falls("per-block-alone", 2, memory.Activation)
	falls("sqrt-alone", 1, memory.Activation)
	falls("micro-batches-alone", 8, memory.Activation)
	falls("sgd-cosine-alone", 1000, memory.OptState)
	falls("offload-activations", 4, memory.Activation)
	falls("offload-optimizer", 4, memory.OptState)
	falls("offload-parameters", 4, memory.Param)
	falls("offload-all", 3, memory.Param, memory.Activation, memory.OptState, memory.Grad)
	for name, r := range rows {
		if strings.HasPrefix(name, "offload") {
			require.Positive(t, r.ByKind[memory.Staging], name)
			requireM5(t, r)
		}
	}
}

// The library's defaults take half of what a model of elementary operations takes, for the same loss up to rounding.
func TestDefaults(t *testing.T) {
	skipIfShort(t)
	for _, model := range models {
		rows, names := rowsOf(t, "-model", model, "-table", "defaults", "-steps", "2", "-batch", "16", "-hidden", "32")
		require.Equal(t, []string{"naive", "composite", "in-place"}, names)
		require.Equal(t, rows["composite"].Loss, rows["in-place"].Loss)
		naive, _ := rows["naive"].Loss.Value()
		base, _ := rows["in-place"].Loss.Value()
		require.InDelta(t, base, naive, 1e-3*base)
		own, best, worst := rows["composite"], rows["in-place"], rows["naive"]
		require.LessOrEqual(t, best.Peak(), own.Peak(), model)
		if model != "mlp" {
			require.Less(t, 3*own.Peak(), 2*worst.Peak(), model)
		}
	}
}

// A whole training has an accuracy, of several seeds where rounding differs.
func TestTrainsAndTells(t *testing.T) {
	skipIfShort(t)
	var out, errw bytes.Buffer
	err := ladder(context.Background(), []string{"-model", "mlp", "-rung", "micro-batches", "-batch", "6000", "-hidden", "16", "-epochs", "1", "-seeds", "2", "-json", "-chart", ""}, &out, &errw)
	require.NoError(t, err)
	var rows []result
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, 1)
	r := rows[0]
	mean, ok := r.Accuracy.Value()
	require.True(t, ok)
	low, _ := r.AccuracyLow.Value()
	high, _ := r.AccuracyHigh.Value()
	require.Less(t, low, high, "two seeds")
	require.InDelta(t, (low+high)/2, mean, 1e-9)
	require.Greater(t, low, 0.3, "10 updates of a narrow network")
	require.Equal(t, 10, r.Steps)
	require.Equal(t, 2, r.Seeds)
}

func TestText(t *testing.T) {
	var out, errw bytes.Buffer
	err := ladder(context.Background(), []string{"-model", "gpt", "-table", "defaults", "-batch", "4", "-steps", "2", "-chart", ""}, &out, &errw)
	require.NoError(t, err)
	for _, text := range []string{"predicted", "composite", "peak by kind", "naive      the model in elementary operations", "one row: go run ./examples/ladder -batch 4 -model gpt -steps 2 -table defaults -rung NAME\n"} {
		require.Contains(t, out.String(), text)
	}
	require.Contains(t, errw.String(), "[1/3] naive")
	for _, line := range strings.Split(out.String(), "\n") {
		require.LessOrEqual(t, len(line), 160)
	}
}

// What the command under a table runs for a row is what the table has run for it.
func TestCommand(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no shell")
	}
	for _, args := range [][]string{
		{"-quick"},
		{"-model", "gpt", "-batch", "64", "-seeds", "2", "-data", "/no where's", "-chart", "", "-json"},
		{"-epochs", "2", "-seed", "7", "-threads", "1", "-table", "stack"},
		{"-model", "mlp", "-hidden", "64", "-steps", "4", "-seeds", "2"},
		{"-table", "alone", "-rung", "per-block-alone"},
	} {
		o, err := parse(args, io.Discard)
		require.NoError(t, err)
		shown, err := o.tables()
		require.NoError(t, err)
		for _, tab := range shown {
			for _, r := range tab.rungs {
				command := strings.Replace(o.command(tab), "NAME", r.name, 1)
				again, err := parse(shellWords(t, command)[3:], io.Discard)
				require.NoError(t, err, command)
				one, err := again.tables()
				require.NoError(t, err, command)
				require.Len(t, one, 1)
				require.Len(t, one[0].rungs, 1)
				want, got := o.trainings(tab, r), again.trainings(one[0], one[0].rungs[0])
				require.Equal(t, want, got, command)
				require.Equal(t, command, again.command(one[0]), "it repeats itself")
			}
		}
	}
	o, err := parse([]string{"-table", "defaults", "-rung", "sqrt"}, io.Discard)
	require.NoError(t, err)
	_, err = o.tables()
	require.ErrorContains(t, err, `rung "sqrt": -table defaults has none of that name`)
}

// shellWords are the words of a command as a shell takes them.
func shellWords(t *testing.T, command string) []string {
	out, err := exec.Command("sh", "-c", "for w in "+command+`; do printf '%s\n' "$w"; done`).Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// The page has tables, chart and the recordings of two steps, whose peaks are those of the table.
func TestPage(t *testing.T) {
	skipIfShort(t)
	var out, errw bytes.Buffer
	page := filepath.Join(t.TempDir(), "ladder.html")
	err := ladder(context.Background(), []string{"-model", "gpt", "-table", "stack", "-batch", "16", "-steps", "2", "-chart", "", "-html", page}, &out, &errw)
	require.NoError(t, err)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Less(t, len(html), 5<<20)
	for _, text := range []string{"<h2>A step of baseline</h2>", "<h2>A step of all-adamw</h2>", "data:image/png;base64,", "the ladder: each row adds to the one before"} {
		require.Contains(t, string(html), text)
	}
	require.Equal(t, 2, bytes.Count(html, []byte(`class="timeline"`)))
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "thimble-ladder-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// Trainings that two tables share are run once, exact ones with one seed, and tables about memory are brief.
func TestTrainings(t *testing.T) {
	o := options{settings: settings{Model: "mlp", Seed: 1, Accuracy: true}, seeds: 3}
	shown := tablesFor("mlp")
	require.Len(t, o.trainings(shown[0], baseline), 3)
	require.Equal(t, settings{Model: "mlp", Rung: "baseline", Seed: 3, Accuracy: true}, o.trainings(shown[0], baseline)[2])
	require.Equal(t, []settings{{Model: "mlp", Rung: "baseline", Steps: briefSteps, Seed: 1}}, o.trainings(shown[1], baseline))
	require.Len(t, o.trainings(shown[0], rung{kind: exact}), 1)
	require.Equal(t, 1, trainings(o, []table{shown[1], {brief: true, rungs: []rung{baseline}}})-trainings(o, []table{{brief: true, rungs: shown[1].rungs[1:]}}))
}

// TestMisuse: each error says what was given and what was wanted.
func TestMisuse(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		args  []string
		texts []string
	}{
		{[]string{"-table", "nothing"}, []string{`table "nothing"`, "want one of stack, alone, defaults"}},
		{[]string{"-rung", "nothing"}, []string{`rung "nothing"`, "-model vit has baseline, dear-only"}},
		{[]string{"-model", "mlp", "-rung", "per-block", "-batch", "16"}, []string{`rung "per-block": -model mlp has baseline, micro-batches`}},
		{[]string{"-data", filepath.Join(empty, "missing")}, []string{"missing", "train-images"}},
		{[]string{"-data", empty}, []string{empty, "train-images"}},
		{[]string{"-model", "nothing"}, []string{`model "nothing"`, "want one of vit, mlp, gpt"}},
		{[]string{"-batch", "-1"}, []string{"-batch -1", "want 0 or more"}},
		{[]string{"-batch", "20", "-rung", "micro-batches"}, []string{"batch 20", "want a multiple of 16"}},
		{[]string{"-batch", "64000"}, []string{"batch 64000", "want at most 60000"}},
		{[]string{"-steps", "-1"}, []string{"-steps -1: want 0 or more"}},
		{[]string{"quick"}, []string{`argument "quick"`, "-help"}},
	} {
		var out, errw bytes.Buffer
		args := c.args
		if !strings.Contains(strings.Join(args, " "), "-steps") {
			args = append([]string{"-steps", "1", "-hidden", "8", "-chart", ""}, args...)
		}
		err := ladder(context.Background(), args, &out, &errw)
		require.Error(t, err, "%v", c.args)
		for _, text := range c.texts {
			require.ErrorContains(t, err, text, "%v", c.args)
		}
	}
}
