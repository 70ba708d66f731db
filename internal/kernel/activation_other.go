//go:build !amd64 || purego

package kernel

func geluFast[T Float](y, x []T) bool { return false }

func geluTanhFast[T Float](y, x []T) bool { return false }

func geluBackwardFast[T Float](dst []T, add bool, g, x []T) bool { return false }

func geluTanhBackwardFast[T Float](dst []T, add bool, g, x []T) bool { return false }

func swigluFast[T Float](y, x, u []T) bool { return false }

func swigluBackwardFast[T Float](dgate, dup []T, addGate, addUp bool, g, x, u []T) bool { return false }
