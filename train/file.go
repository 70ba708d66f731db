package train

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/internal/safetensors"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// A file of a training state is a safetensors file, so that anything that reads those can look at it and take the weights
// out of it. Its tensors are
//
//	model.NAME            parameters and buffers
//	grad.NAME             gradients that were there
//	optimizer.INDEX.NAME  moments, by the index of their parameter in the optimizer
//	ema.NAME              averages
//	thimble.checksums     CRC-32C of each tensor before it, of the header, and of itself so far: 4 bytes each
//
// and the rest, JSON, is in the header's metadata.

const (
	formatName    = "thimble training state"
	formatVersion = "1"
	sumsName      = "thimble.checksums"
)

// header is what is saved beside tensors.
type header struct {
	Arch, Kernel string // see thimble.Features
	Rand         tensor.Stream
	Optimizer    *optimHeader               `json:",omitempty"`
	GradScales   map[string]float64         `json:",omitempty"` // of gradients by their parameter's name: not 1
	Parts        map[string]json.RawMessage `json:",omitempty"`
}

// optimHeader is an optim.StateDict without its tensors.
type optimHeader struct {
	Name   string
	Groups []optim.GroupState
	Params []optimParam
	Rand   tensor.Stream // see optim.StateDict
}

type optimParam struct {
	Name  string
	Step  int64
	State []string `json:",omitempty"` // names of its tensors
}

// meta is the header's metadata for h.
func (h *header) meta() (map[string]string, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return map[string]string{"format": formatName, "version": formatVersion, "state": string(text)}, nil
}

// parseHeader reads what meta wrote.
func parseHeader(meta map[string]string) (*header, error) {
	switch {
	case meta["format"] != formatName:
		return nil, errors.New("it is not a training state (weights alone are for nn.LoadSafetensors)")
	case meta["version"] != formatVersion:
		return nil, fmt.Errorf("version %q of a training state: want %s, all that this version of Thimble reads", meta["version"], formatVersion)
	}
	h := &header{}
	if err := json.Unmarshal([]byte(meta["state"]), h); err != nil {
		return nil, fmt.Errorf("its header: %w", err)
	}
	return h, nil
}

// Info says where a loaded state was saved.
type Info struct {
	Arch, Kernel string // of the process that saved it, see thimble.Features
	// Exact tells that they are this process's too: the training goes on as if it had never stopped, bit for bit.
	// Otherwise it goes on with the same numbers, but rounds differently.
	Exact bool
}

func (h *header) info() Info {
	f := thimble.Features()
	return Info{h.Arch, h.Kernel, h.Arch == f.Arch && h.Kernel == f.Kernel}
}

// String is a line for logs.
func (i Info) String() string {
	if i.Exact {
		return fmt.Sprintf("saved with %s kernels on %s, as they are here", i.Kernel, i.Arch)
	}
	f := thimble.Features()
	return fmt.Sprintf("saved with %s kernels on %s: results here, %s on %s, will differ in rounding", i.Kernel, i.Arch, f.Kernel, f.Arch)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newSum() hash.Hash32 { return crc32.New(castagnoli) }

// sumsOf is the content of the checksums' tensor.
func sumsOf(tensors []uint32, head []byte) []byte {
	var b []byte
	for _, s := range tensors {
		b = binary.LittleEndian.AppendUint32(b, s)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(head, castagnoli))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// errDamaged is what is wrong with a file whose bits are not those that were written.
var errDamaged = errors.New("its checksum is another: the file is damaged")

// stateFile is a file that is being loaded.
type stateFile struct {
	*safetensors.File
	sums []uint32 // of the tensors, by their place in Entries
	header
}

// openState reads all but the tensors, and checks it.
func openState(r io.ReaderAt, size int64) (*stateFile, error) {
	f, err := safetensors.Read(r, size)
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(f.Meta)
	if err != nil {
		return nil, err
	}
	s := &stateFile{File: f, header: *h}
	n := len(f.Entries) - 1
	if n < 0 || f.Entries[n].Name != sumsName || f.Entries[n].Hi-f.Entries[n].Lo != int64(4*(n+2)) {
		return nil, errors.New("its last tensor is not that of the checksums: the file is damaged")
	}
	b := make([]byte, 4*(n+2))
	if _, err := io.ReadFull(f.Data(&f.Entries[n]), b); err != nil {
		return nil, err
	}
	for i := range n {
		s.sums = append(s.sums, binary.LittleEndian.Uint32(b[4*i:]))
	}
	if string(sumsOf(s.sums, f.Head)) != string(b) {
		return nil, fmt.Errorf("the header: %w", errDamaged)
	}
	f.Entries = f.Entries[:n]
	return s, nil
}

// verify reads the elements of entry i.
func (s *stateFile) verify(i int) error {
	sum := newSum()
	if _, err := io.CopyBuffer(onlyWriter{sum}, onlyReader{s.Data(&s.Entries[i])}, make([]byte, 64<<10)); err != nil {
		return fmt.Errorf("%s: %w", s.Entries[i].Name, err)
	}
	if sum.Sum32() != s.sums[i] {
		return fmt.Errorf("%s: %w", s.Entries[i].Name, errDamaged)
	}
	return nil
}

// The two keep io.CopyBuffer from finding a way around its buffer.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// read fills dst, of its spec, with entry i.
func (s *stateFile) read(i int, dst *tensor.Tensor) error {
	sum := newSum()
	err := tensor.ReadElems(io.TeeReader(s.Data(&s.Entries[i]), sum), dst)
	if err == nil && sum.Sum32() != s.sums[i] {
		err = errDamaged
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.Entries[i].Name, err)
	}
	return nil
}
