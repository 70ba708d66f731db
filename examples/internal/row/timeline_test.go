package row

import (
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/memory/report"
)

func TestTimeline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timeline.png")
	lanes := []Lane{
		{Name: "step", Spans: []Span{{0, 40, memory.Other, "forward"}, {40, 100, memory.Other, "backward"}}},
		{Name: "writes", Spans: []Span{{5, 45, memory.Activation, ""}}},
		{Name: "nothing"},
	}
	require.NoError(t, Timeline(path, "a step", lanes))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err)
	found := map[[3]uint8]int{}
	for x := range img.Bounds().Dx() {
		for y := range img.Bounds().Dy() {
			r, g, b, _ := img.At(x, y).RGBA()
			found[[3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}]++
		}
	}
	at := func(k memory.Kind) int {
		c := report.Color(k)
		return found[[3]uint8{c.R, c.G, c.B}]
	}
	require.Greater(t, at(memory.Other), at(memory.Activation))
	require.Positive(t, at(memory.Activation))
	require.Zero(t, at(memory.Param))
	require.Equal(t, []memory.Kind{memory.Activation}, kindsOf(lanes))

	require.ErrorContains(t, Timeline(path, "a step", nil), "no lanes")
	require.ErrorContains(t, Timeline(filepath.Join(path, "no"), "a step", lanes), "row: timeline")
}
