package row

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// keys are the fields that every row has.
var keys = func() (keys []string) {
	t := reflect.TypeFor[Row]()
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("json"); key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
}()

// WriteJSON writes rows, a slice of Row or of structs that embed it, as one JSON array with a line for each row. What
// it writes passes ReadJSON; if it does not, WriteJSON writes nothing and returns the error.
func WriteJSON(w io.Writer, rows any) error {
	b, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("row: %w", err)
	}
	if _, err := ReadJSON(bytes.NewReader(b)); err != nil {
		return err
	}
	var lines []json.RawMessage
	if err := json.Unmarshal(b, &lines); err != nil {
		return fmt.Errorf("row: %w", err)
	}
	_, err = w.Write(array(lines))
	return err
}

// array joins the elements of a JSON array, one a line.
func array(lines []json.RawMessage) []byte {
	if len(lines) == 0 {
		return []byte("[]\n")
	}
	b := []byte("[\n  ")
	for i, l := range lines {
		if i > 0 {
			b = append(b, ",\n  "...)
		}
		b = append(b, l...)
	}
	return append(b, "\n]\n"...)
}

// ReadJSON reads an array of rows and checks it: one array and nothing after it, each row with all keys (and maybe
// more), exactly the ten kinds, figures that pass [Row.Check], and no name twice. Where
// rows have a key "depth", a name stands once for each.
func ReadJSON(r io.Reader) ([]Row, error) {
	dec := json.NewDecoder(r)
	var objects []map[string]json.RawMessage
	if err := dec.Decode(&objects); err != nil {
		return nil, fmt.Errorf("row: want a JSON array of rows: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("row: want one JSON array, more follows it")
	}
	rows, seen := make([]Row, len(objects)), map[string]bool{}
	for i, o := range objects {
		if err := read(o, &rows[i]); err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
		id := rows[i].Name + string(o["depth"])
		if seen[id] {
			return nil, fmt.Errorf("row %d: name %q is there twice", i, rows[i].Name)
		}
		seen[id] = true
	}
	return rows, nil
}

func read(o map[string]json.RawMessage, r *Row) error {
	var missing []string
	for _, key := range keys {
		if _, ok := o[key]; !ok {
			missing = append(missing, key)
		}
	}
	if missing != nil {
		return fmt.Errorf("row: no %s", strings.Join(missing, ", no "))
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, r); err != nil {
		return err
	}
	return r.Check()
}
