package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/memory/report"
)

// The bytes of a profile are the device's peak, in each kind; ops lie under their modules.
func TestProfile(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 2})
	r.run()
	rec := r.record(report.RecordConfig{})
	var out bytes.Buffer
	require.NoError(t, report.WriteProfile(&out, atPeak(t, rec)))
	p, err := profile.Parse(&out)
	require.NoError(t, err)
	require.NoError(t, p.CheckValid())
	sum, by := profiled(p)
	st := r.dev.Stats()
	require.Equal(t, st.Peak, sum)
	for _, k := range memory.Kinds() {
		require.Equal(t, st.PeakByKind[k], by[k.String()], "%s", k)
	}
	stacks := map[string]bool{}
	for _, s := range p.Sample {
		stacks[stackOf(s)] = true
	}
	require.True(t, stacks["param < blocks.0.qkv.weight < blocks.0.qkv < blocks.0"], "%v", stacks)
	require.True(t, stacks["gelu_tanh < loss/gpt/blocks.0/mlp/2 < loss/gpt/blocks.0/mlp < loss/gpt/blocks.0 < loss/gpt < loss"], "%v", stacks)
}

// The difference of two steps' ends is nothing, and shows what a program forgot.
func TestProfileDiff(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 1})
	r.run()
	before := r.dev.Holders()
	r.run()
	diff := func() *profile.Profile {
		var out bytes.Buffer
		require.NoError(t, report.WriteDiff(&out, before, r.dev.Holders()))
		p, err := profile.Parse(&out)
		require.NoError(t, err)
		return p
	}
	require.Empty(t, diff().Sample)

	leak, err := r.dev.Alloc(1000, memory.Other, memory.Site{Op: "keep", Scope: "gpt/blocks.0"})
	require.NoError(t, err)
	defer leak.Release()
	p := diff()
	require.Len(t, p.Sample, 1)
	require.Equal(t, []int64{1, 1000}, p.Sample[0].Value)
	require.Equal(t, "keep < gpt/blocks.0 < gpt", stackOf(p.Sample[0]))

	var out bytes.Buffer
	require.NoError(t, report.WriteDiff(&out, r.dev.Holders(), before))
	p, err = profile.Parse(&out)
	require.NoError(t, err)
	require.Equal(t, []int64{-1, -1000}, p.Sample[0].Value)
}

func profiled(p *profile.Profile) (sum int64, by map[string]int64) {
	by = map[string]int64{}
	for _, s := range p.Sample {
		sum += s.Value[1]
		by[s.Label["kind"][0]] += s.Value[1]
	}
	return sum, by
}

// stackOf is "op < scope < scope around it".
func stackOf(s *profile.Sample) string {
	var names []string
	for _, l := range s.Location {
		names = append(names, l.Line[0].Function.Name)
	}
	return strings.Join(names, " < ")
}

// The peak and its split, computed from the CSV alone, are the device's.
func TestCSV(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 2, micro: 2})
	rec := r.record(report.RecordConfig{})
	var out bytes.Buffer
	require.NoError(t, rec.WriteCSV(&out))
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+len(rec.Held)+len(rec.Events))

	col := map[string]int{}
	for i, name := range rows[0] {
		col[name] = i
	}
	bytesOf, kindOf := map[string]int64{}, map[string]string{}
	var live, peak, arena int64
	var split map[string]int64
	for _, row := range rows[1:] {
		n, _ := strconv.ParseInt(row[col["bytes"]], 10, 64)
		id := row[col["buffer"]]
		switch row[col["act"]] {
		case "held", "alloc":
			bytesOf[id], kindOf[id] = n, row[col["kind"]]
			live += n
		case "free":
			delete(bytesOf, id)
			live -= n
		case "setkind":
			kindOf[id] = row[col["kind"]]
		}
		require.Equal(t, row[col["live"]], strconv.FormatInt(live, 10))
		if a, _ := strconv.ParseInt(row[col["arena"]], 10, 64); a > arena {
			arena = a
		}
		if live > peak {
			peak, split = live, map[string]int64{}
			for id, n := range bytesOf {
				split[kindOf[id]] += n
			}
		}
	}
	st := r.dev.Stats()
	require.Equal(t, st.Peak, peak)
	require.Equal(t, st.ArenaPeak, arena)
	for _, k := range memory.Kinds() {
		require.Equal(t, st.PeakByKind[k], split[k.String()], "%s", k)
	}
}

// Counters of the trace add up to what the events say; phases and operations cover the events.
func TestTrace(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 1})
	rec := r.record(report.RecordConfig{})
	for _, timed := range []bool{true, false} {
		if !timed {
			rec.Times = nil
		}
		var out bytes.Buffer
		require.NoError(t, rec.WriteTrace(&out))
		var got struct {
			TraceEvents []struct {
				Name, Ph string
				TS, Dur  float64
				TID      int
				Args     map[string]any
			}
		}
		require.NoError(t, json.Unmarshal(out.Bytes(), &got))
		var peak, arena, before float64
		var live []int64 // after each event that changes it
		for _, i := range states(rec)[1:] {
			live = append(live, rec.Events[i].Live)
		}
		names := map[string]int{}
		for _, e := range got.TraceEvents {
			names[e.Ph+" "+e.Name]++
			if e.Ph != "C" {
				continue
			}
			require.GreaterOrEqual(t, e.TS, before)
			before = e.TS
			var sum float64
			for _, n := range e.Args {
				sum += n.(float64)
			}
			if e.Name == "live" {
				require.EqualValues(t, live[0], sum, "the kinds add up")
				peak, live = max(peak, sum), live[1:]
			} else {
				arena = max(arena, sum)
			}
		}
		require.Empty(t, live)
		require.EqualValues(t, r.dev.Stats().Peak, peak)
		require.EqualValues(t, r.dev.Stats().ArenaPeak, arena)
		for _, want := range []string{"X forward", "X backward", "X step", "X gelu_tanh", "X gelu_tanh'", "X adamw"} {
			require.Positive(t, names[want], "%s in %v", want, names)
		}
	}
}

// A snapshot has PyTorch's field names; alloc and free are in pairs; the blocks of the segment lie without gaps.
func TestSnapshot(t *testing.T) {
	r := newTraining(t, trainingConfig{layers: 2})
	rec := r.record(report.RecordConfig{})
	var out bytes.Buffer
	require.NoError(t, rec.WriteSnapshot(&out))
	var s map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &s))

	seg := s["segments"].([]any)[0].(map[string]any)
	require.EqualValues(t, r.dev.Stats().ArenaPeak, seg["total_size"])
	var end, live float64
	for _, v := range seg["blocks"].([]any) {
		b := v.(map[string]any)
		require.Equal(t, end, b["address"])
		end += b["size"].(float64)
		live += b["requested_size"].(float64)
	}
	require.Equal(t, seg["total_size"], end)
	require.EqualValues(t, r.dev.Stats().Live, live)

	open := map[float64]bool{}
	for _, v := range s["device_traces"].([]any)[0].([]any) {
		e := v.(map[string]any)
		switch addr := e["addr"].(float64); e["action"] {
		case "alloc":
			require.False(t, open[addr])
			open[addr] = true
		case "free_completed":
			delete(open, addr)
		case "free_requested", "snapshot":
		default:
			t.Fatalf("action %v", e["action"])
		}
	}

	var p bytes.Buffer
	require.NoError(t, rec.WriteSnapshotPickle(&p))
	require.Equal(t, s, unpickle(t, p.Bytes()), "the pickle holds the same")
}

// unpickle reads what PyTorch's viewer reads of protocol 4, numbers as JSON's.
func unpickle(t *testing.T, b []byte) any {
	t.Helper()
	var stack []any
	var marks []int
	var memo []string
	pop := func() int { m := marks[len(marks)-1]; marks = marks[:len(marks)-1]; return m }
	for at := 0; ; {
		c := b[at]
		at++
		switch c {
		case 0x80:
			require.EqualValues(t, 4, b[at])
			at++
		case '(':
			marks = append(marks, len(stack))
		case '}':
			stack = append(stack, map[string]any{})
		case ']':
			stack = append(stack, &[]any{})
		case 'u':
			m := pop()
			d := stack[m-1].(map[string]any)
			for i := m; i < len(stack); i += 2 {
				d[stack[i].(string)] = plain(stack[i+1])
			}
			stack = stack[:m]
		case 'e':
			m := pop()
			require.LessOrEqual(t, len(stack)-m, 1000)
			l := stack[m-1].(*[]any)
			for _, v := range stack[m:] {
				*l = append(*l, plain(v))
			}
			stack = stack[:m]
		case 0x8c:
			n := int(b[at])
			stack = append(stack, string(b[at+1:at+1+n]))
			at += 1 + n
		case 'X':
			n := int(b[at]) | int(b[at+1])<<8 | int(b[at+2])<<16 | int(b[at+3])<<24
			stack = append(stack, string(b[at+4:at+4+n]))
			at += 4 + n
		case 0x94:
			memo = append(memo, stack[len(stack)-1].(string))
		case 'h':
			stack = append(stack, memo[b[at]])
			at++
		case 'j':
			stack = append(stack, memo[int(b[at])|int(b[at+1])<<8|int(b[at+2])<<16|int(b[at+3])<<24])
			at += 4
		case 'J':
			stack = append(stack, float64(int32(uint32(b[at])|uint32(b[at+1])<<8|uint32(b[at+2])<<16|uint32(b[at+3])<<24)))
			at += 4
		case 0x8a:
			require.EqualValues(t, 8, b[at])
			var n uint64
			for i := range 8 {
				n |= uint64(b[at+1+i]) << (8 * i)
			}
			stack = append(stack, float64(int64(n)))
			at += 9
		case 0x88, 0x89:
			stack = append(stack, c == 0x88)
		case '.':
			require.Len(t, stack, 1)
			return plain(stack[0])
		default:
			t.Fatalf("opcode %#x", c)
		}
	}
}

func plain(v any) any {
	if l, ok := v.(*[]any); ok {
		if *l == nil {
			return []any{}
		}
		return *l
	}
	return v
}

// Numbers beyond 31 bits and texts beyond 255 bytes have opcodes of their own.
func TestSnapshotOfLargeArena(t *testing.T) {
	d, err := memory.NewDevice(memory.Config{Virtual: true})
	require.NoError(t, err)
	rec, err := report.Record(d, report.RecordConfig{})
	require.NoError(t, err)
	for _, n := range []int64{1 << 40, 5 << 30} {
		b, err := d.Alloc(n, memory.Param, memory.Site{Op: "param", Scope: strings.Repeat("a/", 200)})
		require.NoError(t, err)
		defer b.Release()
	}
	var j, p bytes.Buffer
	got := rec.Stop()
	require.NoError(t, got.WriteSnapshot(&j))
	require.NoError(t, got.WriteSnapshotPickle(&p))
	var want any
	require.NoError(t, json.Unmarshal(j.Bytes(), &want))
	require.Equal(t, want, unpickle(t, p.Bytes()))
}
