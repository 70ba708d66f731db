// Package report shows what a memory.Device did: as a table, a line a second, a picture, a page to explore, a profile, and
// in the formats of other tools.
//
// [Summary] and [Watch] look at a device as it is. For the rest [Record] listens to it while a step runs, and gives a
// [Recording]: every buffer with its bytes, address, kind, who asked for it, why it is held, when it dies, and in which phase
// of the step. A dry run (Session.Plan of package autograd) gives the same without running anything:
//
//	plan, err := sess.Plan(step, autograd.PlanConfig{Steps: 1, Events: true})
//	rec := &report.Recording{Held: dev.Holders(), Events: plan.Steps[0].Events}
//
// A recording is written as
//
//   - a page for the browser that works offline (WriteHTML), or a picture (WritePNG, WriteSVG): bytes over time;
//   - a profile for go tool pprof (WriteProfile): a flame graph of the modules at the peak; of two instants, what leaks
//     (WriteDiff);
//   - CSV for a spreadsheet, Chrome trace JSON for a trace viewer, PyTorch's memory snapshot for its viewer.
//
// # Figures
//
// Bytes are those of memory.Stats: live bytes as asked for, the arena with its holes and rounding. The peak of a recording is
// Stats.Peak if ResetPeak was called when it began; the bytes of the kinds add up to live bytes after every event.
//
// # What it costs
//
// A device without a recorder makes no events. With one, an event costs about 0.6 microseconds, the texts that say why
// included; the recording is bounded (RecordConfig.Max) and lies on Go's heap, outside the device's figures.
package report
