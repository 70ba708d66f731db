// Dropout (Srivastava et al., 2014), scaled in training:
//
//	dst[i] = or += src[i] m[i]     m[i] = word[i] >= p 2^32 ? 1/(1-p) : 0
//
// word[i] is a Philox word of its own, so backward is the same function of the gradient, and the mask is never stored.
// The product is one of IEEE: what is dropped is 0 unless it is NaN or Inf, as in torch.

package kernel

import "github.com/thimble-ml/thimble/internal/philox"

// Words says where random words come from: word i is word Offset+i of the stream.
type Words struct{ Seed, Stream, Offset uint64 }

// From is the words from number n on.
func (w Words) From(n int) Words {
	w.Offset += uint64(n)
	return w
}

// fill draws words.
func (w Words) fill(dst []uint32) {
	head := min(len(dst), int(-w.Offset%4)) // to the first whole block
	philox.Fill(dst[:head], w.Seed, w.Stream, w.Offset)
	done := head + wordsFast(dst[head:], w.From(head))
	philox.Fill(dst[done:], w.Seed, w.Stream, w.Offset+uint64(done))
}

// dropoutBlock is how many words are drawn at a time: 2 KiB of stack.
const dropoutBlock = 512

// Dropout fills dst with src times the mask, or adds it. words are those of the first element. p = 1 drops everything.
func Dropout[T Float](dst []T, add bool, src []T, p float64, words Words) {
	threshold := uint64(p * (1 << 32))
	factor := [2]T{T(1 / (1 - p)), 0}
	if p == 1 {
		factor[0] = 0
	}
	head := min(len(src), int(-words.Offset%4)) // to the first whole block
	dropoutPlain(dst[:head], add, src[:head], threshold, &factor, words)
	done := head + dropoutFast(dst[head:], add, src[head:], threshold, factor[0], words.From(head))
	dropoutPlain(dst[done:], add, src[done:], threshold, &factor, words.From(done))
}

func dropoutPlain[T Float](dst []T, add bool, src []T, threshold uint64, factor *[2]T, words Words) {
	var buf [dropoutBlock]uint32
	for len(src) > 0 {
		n := min(len(src), dropoutBlock)
		words.fill(buf[:n])
		dropoutRow(dst[:n], add, src[:n], buf[:n], threshold, factor)
		dst, src, words = dst[n:], src[n:], words.From(n)
	}
}

// dropoutRow does not branch on the words: the borrow of word - threshold chooses the factor.
func dropoutRow[T Float](dst []T, add bool, src []T, words []uint32, threshold uint64, factor *[2]T) {
	dst, words = dst[:len(src)], words[:len(src)]
	for i, v := range src {
		z := v * factor[(uint64(words[i])-threshold)>>63]
		if add {
			z += dst[i]
		}
		dst[i] = z
	}
}
