//go:build amd64 && !purego

package kernel

import "golang.org/x/sys/cpu"

// useAVX2 says that routines run their AVX2 version, if they have one. Only tests change it.
var useAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA
