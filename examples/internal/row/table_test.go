package row

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, Table(&b, rows(), Column[Row]{Head: "letters", Cell: func(r Row) string { return fmt.Sprint(len(r.Name)) }}))
	require.Equal(t, `
name             predicted   measured  diff  of base      arena        rss  ms/step    loss  accuracy  letters
---------------  ---------  ---------  ----  -------  ---------  ---------  -------  ------  --------  -------
baseline         10.00 MiB  10.00 MiB   0 B   100.0%  10.00 MiB  11.00 MiB    12.35  0.3123    97.81%        8
SGD, cosine [1]   7.00 MiB   7.00 MiB   0 B    70.0%   7.00 MiB          -     9.00  0.5000    95.00%       11
micro-batches     1.46 MiB          -     -    14.6%   1.46 MiB          -        -       -         -       13

peak by kind
name                  param  optstate  activation
---------------  ----------  --------  ----------
baseline           4.00 MiB  3.00 MiB    3.00 MiB
SGD, cosine [1]    4.00 MiB         -    3.00 MiB
micro-batches    1000.0 KiB         -   500.0 KiB

[1] other training
`, "\n"+b.String())
	require.NoError(t, Table[Row](&b, nil))
}

// A table of the longest names and figures that are expected fits the terminal that it is meant for.
func TestTableWidth(t *testing.T) {
	r := rows()[0]
	r.Name = strings.Repeat("n", 25)
	r.Predict(1<<30, 1<<30, parts(1<<30, 0, 0))
	var b bytes.Buffer
	require.NoError(t, Table(&b, []Row{r}))
	require.LessOrEqual(t, strings.IndexByte(b.String(), '\n'), 120)
}

func TestNotesShareMarks(t *testing.T) {
	marks, lines := footnotes([]Row{{Note: "a"}, {}, {Note: "b"}, {Note: "a"}})
	require.Equal(t, []string{" [1]", "", " [2]", " [1]"}, marks)
	require.Equal(t, "\n[1] a\n[2] b\n", lines)
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", -5: "-5 B", 1 << 10: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.00 MiB", -3 << 19: "-1.50 MiB",
		10<<30 - 1: "10240.00 MiB", 112 << 30: "112.00 GiB",
	} {
		require.Equal(t, want, Bytes(n))
	}
}

func TestChart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chart.png")
	require.NoError(t, Chart(path, "a title", rows()))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err)
	require.Equal(t, int(9.5*chartDPI), img.Bounds().Dx())

	seen := map[string]bool{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[fmt.Sprintf("%02x%02x%02x", r>>8, g>>8, b>>8)] = true
		}
	}
	for color, want := range map[string]bool{"332288": true, "117733": true, "ddcc77": true, "88ccee": false} {
		require.Equal(t, want, seen[color], color)
	}
}

func TestChartRefuses(t *testing.T) {
	require.ErrorContains(t, Chart[Row]("x.png", "", nil), "row: chart x.png: no rows")
	require.ErrorIs(t, Chart(filepath.Join(t.TempDir(), "no", "x.png"), "", rows()), os.ErrNotExist)
}

func TestAxis(t *testing.T) {
	labels := func(hi float64) (s []string) {
		for _, t := range (majors{}).Ticks(0, hi) {
			s = append(s, t.Label)
		}
		return s
	}
	require.Equal(t, []string{"0", "20", "40", "60", "80"}, labels(88))
	require.Equal(t, []string{"0", "2", "4", "6", "8", "10"}, labels(11))
	require.Equal(t, []string{"0", "0.5", "1", "1.5", "2"}, labels(2.1))
	for hi := 1.0; hi < 1e6; hi *= 1.1 {
		n := len(labels(hi))
		require.True(t, n >= 4 && n <= 9, "%g: %v", hi, labels(hi))
	}
	require.Equal(t, "KiB", scaleOf([]Row{{PredictedPeak: new(int64(2<<20 - 1))}}).name)
	require.Equal(t, "MiB", scaleOf([]Row{{PredictedPeak: new(int64(2 << 20))}}).name)
	require.Equal(t, "GiB", scaleOf([]Row{{RSS: new(int64(3 << 30))}}).name)
}
