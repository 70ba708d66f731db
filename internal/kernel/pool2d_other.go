//go:build !amd64 || purego

package kernel

// Each says whether it has done the work: here, never.

func maxPoolFast[T Float](*Pool, []T, []T, []uint8, int, int) bool           { return false }
func maxPoolBackFast[T Float](*Pool, []T, bool, []T, []uint8, int, int) bool { return false }
func avgPoolFast[T Float](*AvgPool, []T, []T, int, int) bool                 { return false }
func avgPoolBackFast[T Float](*AvgPool, []T, bool, []T, int, int) bool       { return false }
