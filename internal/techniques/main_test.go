package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
)

const docs = "../../docs/techniques"

// TestTechniques: every formula gives what the device counted, the sum over kinds is the peak, and the checked-in picture and
// the text are those of now.
func TestTechniques(t *testing.T) {
	if testing.Short() {
		t.Skip("dry runs, beside which nothing runs that the race detector could see")
	}
	text, err := os.ReadFile(docs + ".md")
	require.NoError(t, err)
	require.Contains(t, string(text), fmt.Sprintf("a GPT of L = %d blocks of C = %d channels and H = %d heads, B = %d sequences of T = %d tokens, V = %d words, P = %s parameters", L, C, H, B, T, V, commas(numbers)))
	for _, tech := range techniques {
		t.Run(tech.name, func(t *testing.T) {
			f, err := tech.run()
			require.NoError(t, err)
			require.NoError(t, f.check())
			for _, tr := range append(f.after, f.before) {
				require.EqualValues(t, numbers, tr.params)
				require.Equal(t, sum(tr.peak), highest(tr.curve), "the curve's highest")
				require.GreaterOrEqual(t, tr.fits(), sum(tr.peak))
			}
			picture, err := os.ReadFile(filepath.Join(docs, tech.name+".svg"))
			require.NoError(t, err)
			require.True(t, f.draw() == string(picture), "%s.svg is stale: run go generate ./internal/doctest", tech.name)
			require.Contains(t, string(text), fmt.Sprintf("\n<!-- go run ./internal/techniques %s -->\n", tech.name))
			require.Contains(t, string(text), fmt.Sprintf("](techniques/%s.svg)", tech.name))
			var out bytes.Buffer
			f.show(&out)
			require.Contains(t, string(text), out.String(), "docs/techniques.md is stale: run go run ./internal/doctest -update docs/techniques.md")
		})
	}
}

// TestWrong: a formula that is off by a byte is told.
func TestWrong(t *testing.T) {
	f := found{technique: technique{name: "x", claims: func(*trace, []*trace) []claim { return []claim{{"state", "8P", 7, 8}} }}}
	require.EqualError(t, f.check(), "techniques: x: state: 8P is 7: the device counted 8")
}

// TestArea: the path around two curves of steps, which turns only where they do.
func TestArea(t *testing.T) {
	require.Equal(t, "M10 5H200V3H390V9H200V8H10Z", area(10, []int{8, 9}, []int{5, 3}))
	require.Equal(t, "M10 5H390V9H10Z", area(10, []int{9, 9, 9}, []int{5, 5, 5}))
	var low, high split
	low[memory.Param], high[memory.Grad] = 1, 2
	require.Equal(t, []split{low, high}, squeeze([]split{low, high}))
}

// TestMisuse: each error says what was given and what was wanted.
func TestMisuse(t *testing.T) {
	var out, errw bytes.Buffer
	require.ErrorContains(t, run([]string{"nothing"}, &out, &errw), `"nothing": want one of autocast, scaler`)
	require.ErrorContains(t, run(nil, &out, &errw), "0 names: want one, or -pictures")
	require.ErrorIs(t, run([]string{"-pictures", filepath.Join(t.TempDir(), "none")}, &out, &errw), os.ErrNotExist)
	require.NoError(t, run([]string{"place"}, &out, &errw))
	require.Contains(t, out.String(), "| the arena by a plan")
}
