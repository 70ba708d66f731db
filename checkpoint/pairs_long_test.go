//go:build long

package checkpoint_test

import (
	"testing"

	"github.com/thimble-ml/thimble/offload"
)

// TestPairs on files: 50 steps of each model, with each schedule, beside each partner.
func TestPairsOnDisk(t *testing.T) {
	testPairs(t, offload.Disk, 50, gptTask, vitTask, convChain)
}
