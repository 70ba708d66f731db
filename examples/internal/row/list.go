package row

import (
	"fmt"
	"strings"
)

// Figures is a Row or a struct that embeds one.
type Figures interface{ row() Row }

func (r Row) row() Row { return r }

// Plain returns the rows of figures.
func Plain[F Figures](list []F) (rows []Row) {
	for _, f := range list {
		rows = append(rows, f.row())
	}
	return rows
}

// Names returns the names of a list's elements, which their String gives.
func Names[T fmt.Stringer](list []T) (names []string) {
	for _, e := range list {
		names = append(names, e.String())
	}
	return names
}

// Find returns the element with the given name. The error tells what was looked for, "ladder: rung", and what there is.
func Find[T fmt.Stringer](what, name string, list []T) (found T, err error) {
	for _, e := range list {
		if e.String() == name {
			return e, nil
		}
	}
	return found, fmt.Errorf("%s %q: want one of %s", what, name, strings.Join(Names(list), ", "))
}
