package report_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory/report"
)

// BenchmarkRecord is what recording adds to a training step: plain and recorded steps in turn, in one process.
//
//	go test ./memory/report -run xxx -bench Record
//
// ratio is the median recorded step over the median plain one, events how many a step has, ns/event what one costs.
func BenchmarkRecord(b *testing.B) {
	for _, c := range []trainingConfig{
		{layers: 2},                              // 32 channels, 2 x 16 tokens: a step of small ops
		{layers: 2, dim: 64, batch: 4, time: 64}, //
		{layers: 4, dim: 128, batch: 4, time: 64, recompute: true},
	} {
		b.Run(fmt.Sprintf("layers=%d/dim=%d/tokens=%dx%d", c.layers, max(c.dim, 32), max(c.batch, 2), max(c.time, 16)), func(b *testing.B) {
			r := newTraining(b, c)
			r.run()
			var plain, recorded []time.Duration
			var events int
			for b.Loop() {
				plain = append(plain, r.timed())
				rec, err := report.Record(r.dev, report.RecordConfig{})
				require.NoError(b, err)
				recorded = append(recorded, r.timed())
				events = len(rec.Stop().Events)
			}
			p, q := median(plain), median(recorded)
			b.ReportMetric(float64(q)/float64(p), "ratio")
			b.ReportMetric(float64(events), "events")
			b.ReportMetric(float64(q-p)/float64(events), "ns/event")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func (r *training) timed() time.Duration {
	start := time.Now()
	if err := r.sess.Step(context.Background(), r.step); err != nil {
		r.t.Fatal(err)
	}
	return time.Since(start)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
