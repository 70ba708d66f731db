//go:build !amd64 || purego

package kernel

func topFast[T Float]([]T) (top T, ok bool) { return 0, false }

func expRowFast[T Float](dst, x []T, top T) (sum, at float64, ok bool) { return 0, 0, false }

func expSumFast[T Float](x []T, top float64) (sum float64, ok bool) { return 0, false }

func softmaxRowFast[T Float](y, x []T) bool { return false }

func expTimesRowFast[T Float](d []T, add bool, x []T, top, k float64) bool { return false }

func dotFast[T Float](x, y []T) (sum float64, ok bool) { return 0, false }

func softmaxBackwardRowFast[T Float](d []T, add bool, g, y []T, m float64) bool { return false }

func logSoftmaxRowFast[T Float](y, x []T, sum float64) bool { return false }

func logSoftmaxBackwardRowFast[T Float](d []T, add bool, g, y []T, sum float64) bool { return false }

func softmaxDownFast[T Float](l Lines, y, x []T, w int) bool { return false }

func softmaxBackwardDownFast[T Float](l Lines, dx []T, add bool, g, y []T, w int) bool { return false }

func logSoftmaxDownFast[T Float](l Lines, y, x []T, w int) bool { return false }

func logSoftmaxBackwardDownFast[T Float](l Lines, dx []T, add bool, g, y []T, w int) bool {
	return false
}
