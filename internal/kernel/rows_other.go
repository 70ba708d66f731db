//go:build !amd64 || purego

package kernel

func addFast[T Number]([]T, []T, []T) bool { return false }

func addStream[T Number]([]T, []T, []T, int) bool { return false }

func copyStream[T any]([]T, []T, int) bool { return false }

func addScalarFast[T Number]([]T, []T, T) bool { return false }

func scaleFast[T Number]([]T, bool, []T, T) bool { return false }

func fillFast[T any]([]T, T) bool { return false }

func clipFast[T Float]([]T, T) bool { return false }

func zipFast[T Number](Binary, []T, []T, []T) bool { return false }

func timesFast[T Float]([]T, bool, []T, []T) bool { return false }

func overFast[T Float]([]T, bool, []T, []T) bool { return false }

func shareFast[T Float]([]T, bool, []T, []T, []T) bool { return false }

func divisorFast[T Float]([]T, bool, []T, []T, []T) bool { return false }

func turnFast[T Float](_, _ []T, _ bool, _, _, _, _ []T) bool { return false }

func chooseFast[T Number]([]T, []uint8, []T, []T) int { return 0 }

func keepFast[T Float]([]T, bool, []T, []uint8, uint8) int { return 0 }

func compareFast[T Number](Comparison, []bool, []T, []T) int { return 0 }
