package offload_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/offload"
)

// TestCheckpoint: recomputation composes with a store in both ways: the inputs of regions leave with everything else, and a
// policy sends away what is dear and computes the cheap again.
func TestCheckpoint(t *testing.T) {
	plain := newRig(t, false)
	defer plain.close()
	plain.adamw()
	plain.ok(4)
	for _, how := range []string{"around", "policy", "both, parameters away"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, false)
			defer r.close()
			r.adamw()
			st := r.open(offload.Config{Tier: offload.Disk, Files: &faulty{delay: 50 * time.Microsecond}})
			r.store = st
			switch how {
			case "around":
				r.model.Chain = checkpoint.Chain(checkpoint.Sqrt)
			case "policy":
				r.store = nil
				r.model.Chain = checkpoint.Chain(checkpoint.PerBlock, checkpoint.With(checkpoint.DearTo), checkpoint.OffloadTo(st))
			default:
				r.moveAll(st)
				r.model.Chain = checkpoint.Chain(checkpoint.PerBlock, checkpoint.With(checkpoint.DearTo), checkpoint.OffloadTo(st))
			}
			for range 2 {
				plantest.Compare(t, r.sess, r.step)
			}
			r.same(plain, how)
			require.Positive(t, st.Stats().Written)
			require.NoError(t, st.Close())
		})
	}
}
