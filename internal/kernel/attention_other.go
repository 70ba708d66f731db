//go:build !amd64 || purego

package kernel

// Each says whether it has done the work: here, never.

func forwardFast[T Float](*Attention[T], []byte, int) bool           { return false }
func rowsFast[T Float](*Attention[T], []byte, int) bool              { return false }
func columnsFast[T Float](*Attention[T], []byte, int, int, int) bool { return false }
func headsFast[T Float](*Attention[T], []byte, int, int) bool        { return false }
func deltasFast[T Float](*Attention[T], int, int) bool               { return false }
