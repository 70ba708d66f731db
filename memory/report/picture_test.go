package report_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/memory/report"
)

// A picture has the colours of the kinds that occur, as high as their bytes, and of no other.
func TestPNG(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 2})
	r.run()
	rec := r.record(report.RecordConfig{})
	for _, byTime := range []bool{false, true} {
		var out bytes.Buffer
		require.NoError(t, rec.WritePNG(&out, report.PictureConfig{Title: "A step", ByTime: byTime}))
		img, err := png.Decode(&out)
		require.NoError(t, err)
		require.Equal(t, 9.5*144, float64(img.Bounds().Dx()))

		st := r.dev.Stats()
		x := 3 * img.Bounds().Dx() / 10 // somewhere in forward: parameters and moments are all there
		param, moments := run(img, x, memory.Param), run(img, x, memory.OptState)
		require.InDelta(t, float64(st.LiveByKind[memory.OptState])/float64(st.LiveByKind[memory.Param]), float64(moments)/float64(param), 0.1)
		require.Positive(t, area(img, memory.Activation))
		require.Zero(t, area(img, memory.Staging))
	}
	rec.Times = nil
	require.ErrorContains(t, rec.WritePNG(io.Discard, report.PictureConfig{ByTime: true}), "want PictureConfig.ByTime false")
	rec.Held = nil
	require.ErrorContains(t, rec.WritePNG(io.Discard, report.PictureConfig{}), "want Recording.Held")
	require.ErrorContains(t, rec.WriteHTML(io.Discard, ""), "want Recording.Held")
}

// run counts the pixels of a kind's colour in a column.
func run(img image.Image, x int, k memory.Kind) (n int) {
	for y := range img.Bounds().Dy() {
		if color.RGBAModel.Convert(img.At(x, y)) == color.Color(report.Color(k)) {
			n++
		}
	}
	return n
}

// area counts them left of the legend.
func area(img image.Image, k memory.Kind) (n int) {
	for x := range img.Bounds().Dx() * 8 / 10 {
		n += run(img, x, k)
	}
	return n
}

// An SVG is XML, and says what is what. Lines are there where there is something to say.
func TestSVG(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 2, micro: 2, recompute: true})
	rec := r.record(report.RecordConfig{})
	said := func() map[string]bool {
		var out bytes.Buffer
		require.NoError(t, rec.WriteSVG(&out, report.PictureConfig{Title: "A step", Width: 12, Height: 6}))
		return texts(t, out.Bytes())
	}
	kib := func(n int64) string { return fmt.Sprintf("%.1f KiB", float64(n)/1024) }
	peak, _ := rec.Peak()
	got := said()
	for _, want := range []string{"A step", "forward 1", "backward, recompute 1", "forward 2", "activation", "operations", "end of arena", "peak " + kib(peak) + ": no placement needs less"} {
		require.True(t, got[want], "%q in %v", want, got)
	}
	rec.Predicted, rec.Limit = peak, peak+peak/4
	got = said()
	require.True(t, got["peak, as foretold "+kib(peak)], "%v", got)
	require.True(t, got["limit "+kib(rec.Limit)], "%v", got)
	rec.Predicted, rec.Limit = peak+1024, peak*10
	got = said()
	require.True(t, got["foretold "+kib(rec.Predicted)], "%v", got)
	require.False(t, got["limit "+kib(rec.Limit)], "a limit far above would press everything else to the ground")
}

func texts(t *testing.T, svg []byte) map[string]bool {
	t.Helper()
	list, in := map[string]bool{}, false
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		tok, err := d.Token()
		if err == io.EOF {
			return list
		}
		require.NoError(t, err)
		switch e := tok.(type) {
		case xml.StartElement:
			in = e.Name.Local == "text"
		case xml.CharData:
			if in {
				list[string(e)] = true
			}
		case xml.EndElement:
			in = false
		}
	}
}

// Pictures of nothing are pictures.
func TestEmptyRecording(t *testing.T) {
	for name, rec := range map[string]*report.Recording{
		"nothing": {},
		"held":    {Held: []memory.Holder{{ID: 1, Bytes: 100, Kind: memory.Param}}},
	} {
		require.NoError(t, rec.WritePNG(io.Discard, report.PictureConfig{}), name)
		require.NoError(t, rec.WriteSVG(io.Discard, report.PictureConfig{}), name)
		require.NoError(t, rec.WriteHTML(io.Discard, name))
		require.NoError(t, rec.WriteCSV(io.Discard))
		require.NoError(t, rec.WriteTrace(io.Discard))
		require.NoError(t, rec.WriteSnapshot(io.Discard))
		require.NoError(t, rec.WriteSnapshotPickle(io.Discard))
		list, err := rec.AtPeak()
		require.NoError(t, err)
		require.NoError(t, report.WriteProfile(io.Discard, list))
	}
}

// The page has the colours of the pictures, by day.
func TestPageHasTheColors(t *testing.T) {
	css, err := os.ReadFile("page/page.css")
	require.NoError(t, err)
	for _, k := range memory.Kinds() {
		c := report.Color(k)
		require.Contains(t, string(css), fmt.Sprintf("--%s: #%02x%02x%02x;", k, c.R, c.G, c.B))
	}
}
