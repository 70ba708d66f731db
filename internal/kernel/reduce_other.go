//go:build !amd64 || purego

package kernel

func sumFast[T any]([]T) (float64, bool) { return 0, false }

func absFast[T Float]([]T) (float64, bool) { return 0, false }

func squaresFast[T Float]([]T, float64) (float64, bool) { return 0, false }

func largestFast[T Float]([]T, float64) (float64, bool) { return 0, false }

func largestAbsFast[T Float]([]T) (float64, bool) { return 0, false }

func finiteFast[T Float]([]T) (finite, ok bool) { return false, false }

func addDownFast[T summand, A accumulator]([]A, []T, int, int) bool { return false }

func squaresDownFast[T Float]([]float64, []T) bool { return false }

func distanceDownFast[T Float]([]float64, []T, []float64) bool { return false }

func maxDownFast[T Float]([]float64, []T, float64) bool { return false }

func addSumsFast(_, _ []float64) bool { return false }

func narrowFast[T Float]([]T, bool, []float64) bool { return false }
