// Command philox writes dropout on words of Philox4x32-10. From the folder above:
//
//	go run ./philox -out ../philox_amd64.s
//
// A register holds one word of four counters, in the lower half of 64 bits each; the upper half may hold anything, since
// the product of two words is read from lower halves. Counters lie in the order 0, 2, 1, 3, so that words come out in
// order when four registers are put together.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	. "github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

const (
	rounds = 10
	groups = 2 // of four counters side by side
	step   = groups * 4 * 4
)

// Where the numbers of *p lie, in bytes. Those of dropout come after those of the stream.
const (
	seed      = 0
	stream    = 8
	threshold = 16
	factor    = 20
)

func main() {
	Begin()
	mul := [2]Mem{words("mul0", 0xD2511F53), words("mul1", 0xCD9E8D57)}
	weyl := [2]Mem{words("weyl0", 0x9E3779B9), words("weyl1", 0xBB67AE85)}
	var first [groups]Mem
	for i := range first {
		b := uint64(4 * i)
		first[i] = counters([]string{"first0", "first4"}[i], b, b+2, b+1, b+3)
	}

	// encrypt makes the words from block number at on.
	encrypt := func(at reg.GPVirtual, p reg.Register) []reg.VecVirtual {
		key := [2]reg.VecVirtual{spread(p, seed), spread(p, seed+4)}
		var c [groups]counter
		for i := range c {
			c[i] = start(at, first[i], p)
		}
		for r := range rounds {
			for i := range c {
				c[i] = c[i].round(mul, key)
			}
			for i := range key {
				if r < rounds-1 {
					VPADDD(weyl[i], key[i], key[i])
				}
			}
		}
		var w []reg.VecVirtual
		for _, c := range c {
			w = append(w, c.words()...)
		}
		return w
	}
	fill(encrypt)
	dropout(encrypt)
	Generate()
}

type encryption func(at reg.GPVirtual, p reg.Register) []reg.VecVirtual

// fill writes words.
func fill(encrypt encryption) {
	Start("philoxWords", "(n int, dst *uint32, block uint64, p *[4]uint32)")
	n, dst, at, p := Int("n"), Int("dst"), Int("block"), Int("p")
	Label("next")
	for i, w := range encrypt(at, p) {
		VMOVDQU(w, Mem{Base: dst, Disp: i * Vector * Float})
	}
	ADDQ(Imm(step*Float), dst)
	ADDQ(Imm(step/4), at)
	SUBQ(Imm(step), n)
	JNZ(LabelRef("next"))
	Done()
}

// dropout writes or adds src times the factor that each word stands for.
func dropout(encrypt encryption) {
	Start("dropoutFloats", "(n int, dst *float32, add bool, src *float32, block uint64, p *[6]uint32)")
	n, dst, src, at, p := Int("n"), Int("dst"), Int("src"), Int("block"), Int("p")
	If("add", func(add bool) {
		next := "next"
		if add {
			next = "nextAdded"
		}
		Label(next)
		words := encrypt(at, p)
		least, scale := spread(p, threshold), spread(p, factor)
		for i, w := range words {
			drop(w, least, scale, src, dst, i*Vector*Float, add)
		}
		ADDQ(Imm(step*Float), src)
		ADDQ(Imm(step*Float), dst)
		ADDQ(Imm(step/4), at)
		SUBQ(Imm(step), n)
		JNZ(LabelRef(next))
		Done()
	})
}

// words is a constant in each 32 bits of a register.
func words(name string, w uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range Vector {
		DATA(Float*i, U32(w))
	}
	return m
}

// counters is a constant of four numbers.
func counters(name string, q ...uint64) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i, v := range q {
		DATA(8*i, U64(v))
	}
	return m
}

// spread is a word of p's in each 32 bits.
func spread(p reg.Register, disp int) reg.VecVirtual {
	v := YMM()
	VPBROADCASTD(Mem{Base: p, Disp: disp}, v)
	return v
}

// counter is the four words of four counters.
type counter [4]reg.VecVirtual

// start is the counters from block number at on: block in the first two words, stream in the others.
func start(at reg.GPVirtual, first Mem, p reg.Register) counter {
	c := counter{YMM(), YMM(), spread(p, stream), spread(p, stream+4)}
	VMOVQ(at, c[0].AsX())
	VPBROADCASTQ(c[0].AsX(), c[0])
	VPADDQ(first, c[0], c[0])
	VPSRLQ(Imm(32), c[0], c[1])
	return c
}

func (c counter) round(mul [2]Mem, key [2]reg.VecVirtual) counter {
	p, q := YMM(), YMM()
	VPMULUDQ(mul[0], c[0], p)
	VPMULUDQ(mul[1], c[2], q)
	VPSRLQ(Imm(32), q, c[0])
	VPXOR(c[1], c[0], c[0])
	VPXOR(key[0], c[0], c[0])
	VPSRLQ(Imm(32), p, c[2])
	VPXOR(c[3], c[2], c[2])
	VPXOR(key[1], c[2], c[2])
	return counter{c[0], q, c[2], p}
}

// words puts the words of each counter one after the other: counters 0 and 1, then 2 and 3.
func (c counter) words() []reg.VecVirtual {
	for i := 0; i < 4; i += 2 {
		VPSLLQ(Imm(32), c[i+1], c[i+1])
		VPBLENDD(Imm(0xaa), c[i+1], c[i], c[i])
	}
	lo, hi := YMM(), YMM()
	VPUNPCKLQDQ(c[2], c[0], lo)
	VPUNPCKHQDQ(c[2], c[0], hi)
	return []reg.VecVirtual{lo, hi}
}

// drop writes or adds src times scale where the word is not below least, times 0 elsewhere.
func drop(w, least, scale reg.VecVirtual, src, dst reg.Register, disp int, add bool) {
	keep, v := YMM(), YMM()
	VPMAXUD(least, w, keep)
	VPCMPEQD(w, keep, keep)
	VANDPS(scale, keep, keep)
	VMULPS(Mem{Base: src, Disp: disp}, keep, v)
	if add {
		VADDPS(Mem{Base: dst, Disp: disp}, v, v)
	}
	VMOVUPS(v, Mem{Base: dst, Disp: disp})
}
