package memory_test

import (
	"fmt"
	"log"

	"github.com/thimble-ml/thimble/memory"
)

// Bytes are counted from the allocation to the release of the last reference.
func Example() {
	dev, err := memory.NewDevice(memory.Config{Limit: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	w, err := dev.Alloc(4096, memory.Param, memory.Site{Op: "weight", Scope: "mlp"})
	if err != nil {
		log.Fatal(err)
	}
	x, err := dev.Alloc(1000, memory.Temporary, memory.Site{Op: "linear", Scope: "mlp"})
	if err != nil {
		log.Fatal(err)
	}
	x.Release()

	s := dev.Stats()
	fmt.Println("live", s.Live, "peak", s.Peak, "arena peak", s.ArenaPeak)
	for _, k := range memory.Kinds() {
		if n := s.PeakByKind[k]; n > 0 {
			fmt.Println("at the peak:", k, n)
		}
	}
	w.Release()
	fmt.Println("close:", dev.Close())
	// Output:
	// live 4096 peak 5096 arena peak 5120
	// at the peak: param 4096
	// at the peak: temporary 1000
	// close: <nil>
}

// A dry run measures what would happen on this device, now, without doing it.
func ExampleDevice_Fork() {
	dev, err := memory.NewDevice(memory.Config{Limit: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	dev.Fork()
	x, err := dev.Alloc(5<<20, memory.Activation, memory.Site{Op: "linear"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("bytes:", x.Bytes())
	fmt.Println("needs", dev.Stats().ArenaPeak, "of", dev.Stats().Limit)
	x.Release()
	dev.Join()
	fmt.Println("peak after:", dev.Stats().Peak)
	// Output:
	// bytes: []
	// needs 5242880 of 1048576
	// peak after: 0
}

// Errors say who asked, who holds the memory, and what to do.
func ExampleOOMError() {
	dev, err := memory.NewDevice(memory.Config{Limit: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	_, err = dev.Alloc(2<<20, memory.Activation, memory.Site{Op: "linear", Scope: "gpt/blocks.3"})
	fmt.Println(err)
	// Output:
	// memory: cpu: out of memory: linear in gpt/blocks.3 asked for 2.0 MiB (2097152 bytes) of activation: over Limit 1.0 MiB (1048576 bytes)
	//   live 0 bytes, arena 0 bytes
	//   try: raise Limit; most of it is activation: a smaller batch or more micro-batches (train.Window), or move what backward reads to host memory or disk (offload)
}
