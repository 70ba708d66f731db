package report_test

import (
	"fmt"
	"log"
	"os"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/memory/report"
)

// forget is a step of a program that keeps what it should give back.
func forget(d *memory.Device) *memory.Buffer {
	d.Mark("forward")
	kept, err := d.Alloc(4096, memory.Activation, memory.Site{Op: "gelu", Scope: "gpt/blocks.0"})
	if err != nil {
		log.Fatal(err)
	}
	kept.Describe("float32[32 32]", "saved by gelu in gpt/blocks.0: input 0, for the gradient of input 0")
	x, err := d.Alloc(8192, memory.Temporary, memory.Site{Op: "linear", Scope: "gpt/blocks.0"})
	if err != nil {
		log.Fatal(err)
	}
	d.Mark("backward")
	x.Release()
	return kept
}

// The table of a device that had 12 KiB at most and holds 4.
func ExampleSummary() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	kept := forget(dev)
	defer kept.Release()
	fmt.Print(report.Summary(dev))
	// Output:
	// |=========================================================================|
	// |                   Thimble memory summary, device cpu                    |
	// |-------------------------------------------------------------------------|
	// |              OOMs: 0               |       refused read-ahead: 0        |
	// |=========================================================================|
	// |       Metric        |  Cur Usage | Peak Usage |  Tot Alloc |  Tot Freed |
	// |-------------------------------------------------------------------------|
	// | Live                |    4.0 KiB |   12.0 KiB |   12.0 KiB |    8.0 KiB |
	// |       activation    |    4.0 KiB |    4.0 KiB |            |            |
	// |       temporary     |        0 B |    8.0 KiB |            |            |
	// |-------------------------------------------------------------------------|
	// | Arena               |    4.0 KiB |   12.0 KiB |            |            |
	// | Arena over live     |      1.000 |      1.000 |            |            |
	// |-------------------------------------------------------------------------|
	// | Reserved            |   64.0 KiB |   64.0 KiB |            |            |
	// |-------------------------------------------------------------------------|
	// | Buffers             |          1 |          2 |          2 |          1 |
	// |=========================================================================|
}

// What was alive at the peak, and why.
func ExampleRecord() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	recorder, err := report.Record(dev, report.RecordConfig{})
	if err != nil {
		log.Fatal(err)
	}
	kept := forget(dev)
	defer kept.Release()

	rec := recorder.Stop()
	peak, at := rec.Peak()
	fmt.Println("peak", peak, "after event", at)
	tensors, err := rec.Tensors()
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tensors {
		fmt.Println(t.Bytes, t.Kind(at), t.Spec, t.Site, "alive from event", t.Born, "to", t.Died, t.Why)
	}
	// Output:
	// peak 12288 after event 3
	// 4096 activation float32[32 32] gelu in gpt/blocks.0 alive from event 1 to 6 [{2 saved by gelu in gpt/blocks.0: input 0, for the gradient of input 0}]
	// 8192 temporary  linear in gpt/blocks.0 alive from event 3 to 5 []
}

// A profile of what a program holds after a step and did not before: go tool pprof -http=: leak.pb.gz shows where.
func ExampleWriteDiff() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	before := dev.Holders()
	kept := forget(dev)
	defer kept.Release()

	f, err := os.CreateTemp("", "leak*.pb.gz")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	if err := report.WriteDiff(f, before, dev.Holders()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Close())
	// Output: <nil>
}

// A page to explore, and the events as a table.
func ExampleRecording() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	recorder, err := report.Record(dev, report.RecordConfig{})
	if err != nil {
		log.Fatal(err)
	}
	kept := forget(dev)
	defer kept.Release()

	rec := recorder.Stop()
	f, err := os.CreateTemp("", "step*.html")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	if err := rec.WriteHTML(f, "A step that forgets"); err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
	rec.Times = nil // so that the table is the same each time
	if err := rec.WriteCSV(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// seq,time_us,op,phase,act,buffer,addr,bytes,kind,live,arena,op_name,scope,spec,why,by_op,by_scope
	// 1,,0,forward,mark,,,,,0,0,,,,,,
	// 2,,0,forward,alloc,1,0,4096,activation,4096,4096,gelu,gpt/blocks.0,,,,
	// 3,,0,forward,describe,1,0,4096,activation,4096,4096,gelu,gpt/blocks.0,float32[32 32],"saved by gelu in gpt/blocks.0: input 0, for the gradient of input 0",,
	// 4,,0,forward,alloc,2,4096,8192,temporary,12288,12288,linear,gpt/blocks.0,,,,
	// 5,,0,backward,mark,,,,,12288,12288,,,,,,
	// 6,,0,backward,free,2,4096,8192,temporary,4096,4096,linear,gpt/blocks.0,,,,
}
