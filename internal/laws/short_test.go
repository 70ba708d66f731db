//go:build !long

package laws

// The usual forms; build tag long has the long ones.
const (
	testEvery   = 5    // a smaller step after every so many failures
	randomSteps = 2000 // steps that end at random
	manySteps   = 10000
)
