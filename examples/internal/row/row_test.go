package row

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
)

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteJSON(&b, rows()))
	require.Equal(t, `[
  {"name":"baseline","predicted_peak_bytes":10485760,"measured_peak_bytes":10485760,"arena_bytes":10485824,"rss_bytes":11534336,"by_kind":{"param":4194304,"grad":0,"optstate":3145728,"activation":3145728,"temporary":0,"scratch":0,"input":0,"staging":0,"castcopy":0,"other":0},"step_ms":12.345,"loss":0.31234,"accuracy":0.9781,"steps":600},
  {"name":"SGD, cosine","predicted_peak_bytes":7340032,"measured_peak_bytes":7340032,"arena_bytes":7340032,"rss_bytes":null,"by_kind":{"param":4194304,"grad":0,"optstate":0,"activation":3145728,"temporary":0,"scratch":0,"input":0,"staging":0,"castcopy":0,"other":0},"step_ms":9,"loss":0.5,"accuracy":0.95,"steps":600},
  {"name":"micro-batches","predicted_peak_bytes":1536000,"measured_peak_bytes":null,"arena_bytes":1536000,"rss_bytes":null,"by_kind":{"param":1024000,"grad":0,"optstate":0,"activation":512000,"temporary":0,"scratch":0,"input":0,"staging":0,"castcopy":0,"other":0},"step_ms":null,"loss":null,"accuracy":null,"steps":0}
]
`, b.String())

	back, err := ReadJSON(&b)
	require.NoError(t, err)
	want := rows()
	want[1].Note = "" // does not travel
	require.Equal(t, want, back)

	require.NoError(t, WriteJSON(&b, []Row{}))
	require.Equal(t, "[]\n", b.String())
}

func TestJSONOfEmbedded(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteJSON(&b, []wide{{Row: rows()[0], Extra: Num(math.Inf(1))}}))
	require.Contains(t, b.String(), `"steps":600,"extra":null}`)
	_, err := ReadJSON(&b)
	require.NoError(t, err)
}

func TestJSONRefuses(t *testing.T) {
	edit := func(old, new string) string {
		var b bytes.Buffer
		require.NoError(t, WriteJSON(&b, rows()[:1]))
		require.Contains(t, b.String(), old)
		return strings.Replace(b.String(), old, new, 1)
	}
	for want, text := range map[string]string{
		"want a JSON array":                 `{"name":"x"}`,
		"more follows":                      "[] []",
		"no rss_bytes":                      edit(`"rss_bytes":11534336,`, ""),
		`by_kind: no key "grad"`:            edit(`"grad":0,`, ""),
		`by_kind: key "gradient": want`:     edit(`"grad":0,`, `"grad":0,"gradient":0,`),
		"kinds add up to 10485761":          edit(`"grad":0,`, `"grad":1,`),
		"arena 5: want at least":            edit(`"arena_bytes":10485824`, `"arena_bytes":5`),
		"accuracy 97.8":                     edit(`"accuracy":0.9781`, `"accuracy":97.8`),
		"a negative figure":                 edit(`"rss_bytes":11534336`, `"rss_bytes":-1`),
		"want a measured or a predicted pe": edit(`10485760,"measured_peak_bytes":10485760`, `null,"measured_peak_bytes":null`),
		"no name":                           edit(`"baseline"`, `""`),
		"cannot unmarshal string":           edit(`"loss":0.31234`, `"loss":"0.3"`),
	} {
		_, err := ReadJSON(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
	var b bytes.Buffer
	twice := rows()[0]
	require.ErrorContains(t, WriteJSON(&b, []Row{twice, twice}), `name "baseline" is there twice`)
	type deep struct {
		Row
		Depth int `json:"depth"`
	}
	require.NoError(t, WriteJSON(&b, []deep{{twice, 8}, {twice, 16}}))
	b.Reset()
	require.ErrorContains(t, WriteJSON(&b, []deep{{twice, 8}, {twice, 8}}), `name "baseline" is there twice`)
	require.ErrorContains(t, WriteJSON(&b, []Row{{Name: "x"}}), "want a measured or a predicted peak")
	require.ErrorContains(t, WriteJSON(&b, []any{make(chan int)}), "unsupported type")
	require.Zero(t, b.Len())
}

// The kinds' names and order are the row's format.
func TestKeys(t *testing.T) {
	require.Equal(t, "[param grad optstate activation temporary scratch input staging castcopy other]", toText(t, memory.Kinds()))
	require.Equal(t, "[name predicted_peak_bytes measured_peak_bytes arena_bytes rss_bytes by_kind step_ms loss accuracy steps]", toText(t, keys))
}

func toText[T any](t *testing.T, list []T) string {
	var b strings.Builder
	for i, v := range list {
		b.WriteString(" "[:min(i, 1)])
		switch v := any(v).(type) {
		case string:
			b.WriteString(v)
		case memory.Kind:
			b.WriteString(v.String())
		}
	}
	return "[" + b.String() + "]"
}

func TestNumber(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.Equal(t, Number{}, Num(v))
	}
	b, err := json.Marshal([]Number{Num(1.5), {}, Num(0)})
	require.NoError(t, err)
	require.Equal(t, "[1.5,null,0]", string(b))
	var back []Number
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, []Number{Num(1.5), {}, Num(0)}, back)
	require.Equal(t, "1.50 ms", Num(1.5).Format(2, " ms"))
	require.Equal(t, "-", Number{}.Format(2, " ms"))
}
