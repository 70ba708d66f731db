package nn

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/thimble-ml/thimble/autograd"
)

// fieldName is the part of a path that a field adds, "" for an embedded one; ok is false for one that is skipped.
func fieldName(f reflect.StructField) (name string, ok bool) {
	tag := f.Tag.Get("nn")
	switch {
	case tag == "-" || !f.IsExported() && !embedsStruct(f):
		return "", false
	case tag != "":
		return tag, true
	case f.Anonymous && f.Type != paramType:
		return "", true
	}
	return snake(f.Name), true
}

// embedsStruct tells whether the exported fields of an embedded struct can be reached though its type may not be exported.
func embedsStruct(f reflect.StructField) bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return f.Anonymous && t.Kind() == reflect.Struct
}

// snake is a Go name in torch's manner: FinalNorm gives final_norm, LMHead lm_head, LN1 ln1, Conv2D conv2d. A word begins
// at an upper-case letter that follows a lower-case one, or that follows another character and precedes a lower-case one.
func snake(name string) string {
	var b strings.Builder
	r := []rune(name)
	for i, c := range r {
		if unicode.IsUpper(c) && i > 0 && r[i-1] != '_' {
			before := unicode.IsLower(r[i-1])
			after := i+1 < len(r) && unicode.IsLower(r[i+1])
			if before || after {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// join puts a part behind a path; either may be "".
func join(path, part string) string {
	if path == "" || part == "" {
		return path + part
	}
	return path + "." + part
}

// rename tells p its name, unless the name it has is the longer path: then a part of a model is being walked.
func rename(p *autograd.Param, path string) {
	if strings.Count(path, ".") >= strings.Count(p.Name(), ".") {
		p.SetName(path)
	}
}
