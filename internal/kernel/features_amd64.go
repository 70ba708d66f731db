//go:build amd64 && !purego

package kernel

import "golang.org/x/sys/cpu"

// useAVX2 says that routines run their AVX2 version, if they have one. Only tests change it.
var useAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// hasF16C says that float16 is converted by instruction, where useAVX2 does too. Every processor with AVX2 so far has it.
var hasF16C = cpu.X86.HasF16C
