package offload

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpace: places never overlap, and what is given back is joined and used again.
func TestSpace(t *testing.T) {
	var sp space
	type place struct{ at, n int64 }
	var held []place
	r := rand.New(rand.NewPCG(1, 2))
	owner := map[int64]int{} // by page
	for i := range 4000 {
		if len(held) > 0 && r.IntN(2) == 0 {
			k := r.IntN(len(held))
			p := held[k]
			held[k] = held[len(held)-1]
			held = held[:len(held)-1]
			for at := p.at; at < p.at+pages(p.n); at += page {
				delete(owner, at)
			}
			sp.give(p.at, p.n)
			continue
		}
		p := place{n: r.Int64N(5 * page)}
		p.at = sp.take(p.n)
		require.Zero(t, p.at%page)
		for at := p.at; at < p.at+pages(p.n); at += page {
			require.Zero(t, owner[at], "taken twice")
			owner[at] = i + 1
		}
		held = append(held, p)
		for k := 1; k < len(sp.free); k++ {
			require.Less(t, sp.free[k-1].hi, sp.free[k].lo, "sorted and joined")
		}
	}
	for _, p := range held {
		sp.give(p.at, p.n)
	}
	require.Equal(t, space{free: []span{}}, space{free: append([]span{}, sp.free...), end: sp.end})
}
