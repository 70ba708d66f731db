//go:build !amd64 || purego

package kernel

func reluFast[T Float](y, x []T, mask []uint8) bool { return false }

func leakyReLUFast[T Float](y, x []T, slope float64, mask []uint8) bool { return false }

func clampFast[T Float](y, x []T, lo, hi T, mask []uint8) bool { return false }

func reluBackwardFast[T Float](dst []T, add bool, g []T, mask []uint8) bool { return false }

func leakyReLUBackwardFast[T Float](dst []T, add bool, g []T, slope float64, mask []uint8) bool {
	return false
}
