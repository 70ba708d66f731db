package report

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
)

// Opcodes of Python's pickle, protocol 4 (PEP 3154); those that PyTorch's viewer knows.
const (
	opProto          = 0x80
	opStop           = '.'
	opMark           = '('
	opEmptyDict      = '}'
	opSetItems       = 'u'
	opEmptyList      = ']'
	opAppends        = 'e'
	opShortUnicode   = 0x8c
	opUnicode        = 'X'
	opMemoize        = 0x94
	opBinGet         = 'h'
	opLongBinGet     = 'j'
	opBinInt         = 'J'
	opLong1          = 0x8a
	opTrue, opFalse  = 0x88, 0x89
	pickleBatch      = 1000 // elements appended at once, as Python does; the viewer's stack is not endless
	longestShortText = 255
)

// pickler writes structs as dicts by the names of their JSON tags, slices as lists, strings, integers and booleans. A string
// that was written before is referred to.
type pickler struct {
	w    *bufio.Writer
	memo map[string]uint32
}

// pickle writes v.
func pickle(w io.Writer, v any) error {
	p := &pickler{bufio.NewWriter(w), map[string]uint32{}}
	p.w.Write([]byte{opProto, 4})
	if err := p.value(reflect.Indirect(reflect.ValueOf(v))); err != nil {
		return err
	}
	p.w.WriteByte(opStop)
	return p.w.Flush()
}

func (p *pickler) value(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Struct:
		return p.dict(v)
	case reflect.Slice:
		return p.list(v)
	case reflect.String:
		p.text(v.String())
	case reflect.Bool:
		p.w.WriteByte(map[bool]byte{true: opTrue, false: opFalse}[v.Bool()])
	case reflect.Int, reflect.Int64:
		p.integer(v.Int())
	default:
		return fmt.Errorf("pickle of a %s", v.Type())
	}
	return nil
}

func (p *pickler) dict(v reflect.Value) error {
	p.w.Write([]byte{opEmptyDict, opMark})
	for i := range v.NumField() {
		name, omit := strings.CutSuffix(v.Type().Field(i).Tag.Get("json"), ",omitempty")
		if omit && v.Field(i).IsZero() {
			continue
		}
		p.text(name)
		if err := p.value(v.Field(i)); err != nil {
			return err
		}
	}
	p.w.WriteByte(opSetItems)
	return nil
}

func (p *pickler) list(v reflect.Value) error {
	p.w.WriteByte(opEmptyList)
	for i := 0; i < v.Len(); i += pickleBatch {
		p.w.WriteByte(opMark)
		for k := i; k < min(i+pickleBatch, v.Len()); k++ {
			if err := p.value(v.Index(k)); err != nil {
				return err
			}
		}
		p.w.WriteByte(opAppends)
	}
	return nil
}

func (p *pickler) text(s string) {
	if at, ok := p.memo[s]; ok {
		if at <= math.MaxUint8 {
			p.w.Write([]byte{opBinGet, byte(at)})
		} else {
			p.w.Write(binary.LittleEndian.AppendUint32([]byte{opLongBinGet}, at))
		}
		return
	}
	p.memo[s] = uint32(len(p.memo))
	if len(s) <= longestShortText {
		p.w.Write([]byte{opShortUnicode, byte(len(s))})
	} else {
		p.w.Write(binary.LittleEndian.AppendUint32([]byte{opUnicode}, uint32(len(s))))
	}
	p.w.WriteString(s)
	p.w.WriteByte(opMemoize)
}

func (p *pickler) integer(n int64) {
	if n == int64(int32(n)) {
		p.w.Write(binary.LittleEndian.AppendUint32([]byte{opBinInt}, uint32(n)))
		return
	}
	p.w.Write(binary.LittleEndian.AppendUint64([]byte{opLong1, 8}, uint64(n)))
}
