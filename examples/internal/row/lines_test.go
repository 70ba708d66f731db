package row

import (
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines.png")
	panels := []Panel{
		{"peak, MiB", []Line{{"none", []float64{1, 2, 4}}, {"sqrt", []float64{1, 1.5, 2}}}, false},
		{"time, ms", []Line{{"none", []float64{3, 6, 12}}, {"sqrt", []float64{4, 8, 16}}}, true},
	}
	require.NoError(t, Lines(path, "blocks", []int{8, 16, 32}, panels))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err)
	require.Greater(t, img.Bounds().Dx(), 1000)
	seen := map[any]bool{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			seen[img.At(x, y)] = true
		}
	}
	require.True(t, seen[lineColor[0]] && seen[lineColor[1]], "both lines are there")

	many := Panel{Title: "loss", Lines: []Line{{"none", make([]float64, 100)}}}
	many.Lines[0].Y[0] = 1
	require.True(t, many.falls())
	require.False(t, panels[0].falls())
	marks := make([]int, 100)
	for i := range marks {
		marks[i] = i
	}
	require.NoError(t, Lines(path, "updates", marks, []Panel{many}))
	require.Len(t, ticks(marks).Ticks(0, 99), 5)
	require.Len(t, ticks(marks[:12]).Ticks(0, 11), 12)

	require.ErrorContains(t, Lines(path, "blocks", []int{8}, panels), `line "none" has 3 values: want 1`)
	require.ErrorContains(t, Lines(path, "blocks", nil, panels), "no lines")
	require.Error(t, Lines(filepath.Join(path, "x.png"), "blocks", []int{8, 16, 32}, panels))
}
