package kernel

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// Family names the implementation that the routines of this package run on, chosen when the process starts: "avx2" where
// the processor has AVX2 and FMA and the build has assembly (amd64, without tag purego), else "go". A routine without a
// version for the family runs in plain Go. Bits are equal within a family; between families results agree to tolerances.
func Family() string {
	if useAVX2 {
		return "avx2"
	}
	return "go"
}

// CPUFeatures lists what this processor has of the features that matter to kernels, in a fixed order.
func CPUFeatures() []string {
	var list []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"sse4.1", cpu.X86.HasSSE41},
		{"avx", cpu.X86.HasAVX},
		{"avx2", cpu.X86.HasAVX2},
		{"fma", cpu.X86.HasFMA},
		{"f16c", cpu.X86.HasF16C},
		{"avx512f", cpu.X86.HasAVX512F},
		{"avx512bf16", cpu.X86.HasAVX512BF16},
		{"asimd", cpu.ARM64.HasASIMD},
		{"asimdhp", cpu.ARM64.HasASIMDHP},
	} {
		if f.has {
			list = append(list, f.name)
		}
	}
	return list
}

// UsedFeatures lists the features that the chosen family uses beyond the architecture's base level: none, in plain Go.
func UsedFeatures() []string {
	switch {
	case useAVX2 && hasF16C:
		return []string{"avx2", "fma", "f16c"}
	case useAVX2:
		return []string{"avx2", "fma"}
	}
	return nil
}

// Arch is the processor's architecture, as Go names it.
const Arch = runtime.GOARCH
