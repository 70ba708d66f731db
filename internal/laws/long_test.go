//go:build long

package laws

// The long forms.
const (
	testEvery   = 1
	randomSteps = 20000
	manySteps   = 100000
)
