//go:build !amd64 || purego

package kernel

func mapRowFast[T Float](Unary, float64, []T, []T) bool { return false }

func mapBackwardRowFast[T Float](Unary, float64, []T, bool, []T, []T) bool { return false }
