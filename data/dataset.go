package data

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/thimble-ml/thimble/internal/philox"
	"github.com/thimble-ml/thimble/tensor"
)

// Dataset is what a [Loader] makes batches of: torch's map-style dataset.
//
// Len and Fields give the same at every call. Get is called from several goroutines at once, for different items and in any
// order: it must not change what they share. What it gives may depend on the item's number, its epoch and its random
// stream, and on nothing else, or a training that resumes is another one.
type Dataset interface {
	// Len is the number of items.
	Len() int
	// Fields are dtype and shape of each tensor of one item, image and label for example. A batch has one dimension more,
	// in front.
	Fields() []tensor.Spec
	// Get writes an item to its place in a batch; what it leaves out is zero. It returns soon after ctx is done. An error
	// ends the epoch, and reaches the loop over the batches wrapped, as does a panic.
	Get(ctx context.Context, item *Item) error
}

// Item is one item on its way into a batch. It is valid until Get returns.
type Item struct {
	index, epoch int
	seed         uint64

	fields []field // of the batch
	row    int     // in it

	src    words
	random *rand.Rand
	drawn  bool // random is at this item's stream
}

// Index is the item's number, from 0 to Len-1.
func (it *Item) Index() int { return it.index }

// Epoch is the number of the epoch that the item is for.
func (it *Item) Epoch() int { return it.epoch }

// Rand is the item's own random numbers, for augmentation and the like: a function of the loader's seed, the epoch and
// the item's number alone, so that neither workers nor batches nor an interruption change them.
func (it *Item) Rand() *rand.Rand {
	if !it.drawn {
		it.drawn = true
		it.src = words{seed: it.seed, stream: itemStream + uint64(it.epoch), offset: uint64(it.index) << 32}
	}
	return it.random
}

// itemStream is the first of the random streams of items, one for each epoch, in which an item has 2^32 words.
const itemStream = 0x6974_656d_0000_0000 // "item"

// words is a random stream as math/rand/v2 wants it.
type words struct {
	seed, stream, offset uint64 // offset: of the next word
	block                [4]uint32
}

// Uint64 gives the next two words, the first low.
func (w *words) Uint64() uint64 {
	at := w.offset % 4
	if at == 0 {
		philox.Fill(w.block[:], w.seed, w.stream, w.offset)
	}
	w.offset += 2
	return uint64(w.block[at]) | uint64(w.block[at+1])<<32
}

func newItem() *Item {
	it := &Item{}
	it.random = rand.New(&it.src)
	return it
}

// Field is the place of field k of an item: its elements in row-major order, to be written. It panics if T is not the
// field's element type, or k none of the fields.
func Field[T tensor.Elem](it *Item, k int) []T {
	if k < 0 || k >= len(it.fields) {
		panic(fmt.Sprintf("data: field %d of an item: want 0 to %d, as the data set's Fields say", k, len(it.fields)-1))
	}
	f := &it.fields[k]
	all, ok := f.elems.([]T)
	if !ok {
		panic(fmt.Sprintf("data: field %d of an item is %s: asked as %s", k, f.spec, tensor.DTypeOf[T]()))
	}
	return all[it.row*f.n : (it.row+1)*f.n : (it.row+1)*f.n]
}

// field is a field of a batch, without the tensor: workers do not touch what belongs to the session's goroutine.
type field struct {
	spec  tensor.Spec // of one item
	n     int         // elements of one item
	elems any         // []T
	raw   []byte      // the same as bytes
}

// newField takes the storage of t, a batch of such items, apart.
func newField(spec tensor.Spec, t *tensor.Tensor) field {
	return field{spec, spec.Elems(), elemsOf(t), t.Buffer().Bytes()}
}

// clear makes row i zero.
func (f *field) clear(i int) {
	size := int(f.spec.Bytes())
	clear(f.raw[i*size : (i+1)*size])
}

// Subset is the items of ds that index names, in its order: part of a data set, or items several times.
func Subset(ds Dataset, index []int32) (Dataset, error) {
	for k, i := range index {
		if i < 0 || int(i) >= ds.Len() {
			return nil, fmt.Errorf("data: Subset: index %d at %d: want 0 to %d", i, k, ds.Len()-1)
		}
	}
	return subset{ds, index}, nil
}

type subset struct {
	Dataset
	index []int32
}

func (s subset) Len() int { return len(s.index) }

// Get asks for the item by the number that it has in the whole set. Its random stream is that number's too.
func (s subset) Get(ctx context.Context, item *Item) error {
	item.index = int(s.index[item.index])
	return s.Dataset.Get(ctx, item)
}
