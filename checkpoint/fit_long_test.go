//go:build long

package checkpoint_test

import (
	"math/rand/v2"
	"testing"
)

// 8 blocks have two million schedules.
func TestSolveIsBruteForceOn8(t *testing.T) {
	dice := rand.New(rand.NewPCG(8, 8))
	bruteForce(t, randomCosts(dice, 8), dice)
}
