//go:build !amd64 || purego

package kernel

import "testing"

// Families are the kernel families that this process can run on.
func Families() []string { return []string{"go"} }

// UseFamily runs the rest of a test on one of Families.
func UseFamily(testing.TB, string) {}
