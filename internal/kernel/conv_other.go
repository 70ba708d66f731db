//go:build !amd64 || purego

package kernel

// Each says whether it has done the work: here, never.

func convForwardFast[T Float](*Conv, []T, []T, []T, []T, []byte, int) bool       { return false }
func convInputFast[T Float](*Conv, []T, bool, []T, []T, []byte, int) bool        { return false }
func convWeightFast[T Float](*convWeight, []T, bool, []T, []T, []byte, int) bool { return false }
