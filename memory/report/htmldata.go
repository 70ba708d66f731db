package report

import "github.com/thimble-ml/thimble/memory"

// pageData is a recording as page/data.js reads it: columns, texts by number. A state is what lies between two changes
// (allocation, end, another kind); events that change no figure are left out.
type pageData struct {
	Device    string   `json:"device"`
	Limit     int64    `json:"limit"`
	Predicted int64    `json:"predicted"`
	Dropped   uint64   `json:"dropped"`
	Events    int      `json:"events"`
	End       float64  `json:"end"` // microseconds
	Kinds     []string `json:"kinds"`
	Text      []string `json:"text"`

	State  pageStates  `json:"state"`
	Tensor pageTensors `json:"tensor"`
	Change []int       `json:"change"` // tensor, state, kind; and so on
	Phase  [][2]int    `json:"phase"`  // first state, name
	By     [][4]int    `json:"by"`     // first state, number of the operation, name, scope

	index map[string]int
}

// pageStates has an element for each state; the first is before the first change.
type pageStates struct {
	Op    []int     `json:"op"`
	Arena []int64   `json:"arena"`
	Time  []float64 `json:"time"` // microseconds; null: not known
}

// pageTensors has an element for each tensor. One is alive in the states from Born up to, not including, Died.
type pageTensors struct {
	ID    []uint64 `json:"id"`
	Addr  []int64  `json:"addr"`
	Bytes []int64  `json:"bytes"`
	Kind  []int    `json:"kind"` // at its birth
	Op    []int    `json:"op"`
	Scope []int    `json:"scope"`
	Spec  []int    `json:"spec"`
	Why   [][]int  `json:"why"` // state, text; and so on
	Born  []int    `json:"born"`
	Died  []int    `json:"died"`
}

func (r *Recording) pageData() (*pageData, error) {
	tensors, err := r.Tensors()
	if err != nil {
		return nil, err
	}
	d := &pageData{Device: r.Device, Limit: r.Limit, Predicted: r.Predicted, Dropped: r.Dropped, Events: len(r.Events), Text: []string{}, Change: []int{}, Phase: [][2]int{}, By: [][4]int{}, index: map[string]int{}}
	d.Tensor = newTensors(len(tensors))
	for _, k := range memory.Kinds() {
		d.Kinds = append(d.Kinds, k.String())
	}
	state := d.states(r)
	for i := range tensors {
		d.tensor(&tensors[i], i, state)
	}
	return d, nil
}

// newTensors makes room for n: columns are lists, also where there are none.
func newTensors(n int) pageTensors {
	ints := func() []int { return make([]int, 0, n) }
	return pageTensors{make([]uint64, 0, n), make([]int64, 0, n), make([]int64, 0, n), ints(), ints(), ints(), ints(), make([][]int, 0, n), ints(), ints()}
}

// text is the number of a text.
func (d *pageData) text(s string) int {
	i, ok := d.index[s]
	if !ok {
		i = len(d.Text)
		d.index[s] = i
		d.Text = append(d.Text, s)
	}
	return i
}

// states fills in what goes by states, and gives the state that each event leads to; behind the last, how many there are.
func (d *pageData) states(r *Recording) []int {
	state := make([]int, len(r.Events)+1)
	timed := len(r.Times) == len(r.Events) && len(r.Events) > 0
	var arena int64
	for i := range r.Held {
		arena = max(arena, rounded(r.Held[i].Addr+r.Held[i].Bytes))
	}
	d.put(0, arena, 0, timed)
	var last memory.Event
	for i := range r.Events {
		e := &r.Events[i]
		if changes(e.Act) {
			d.put(int(e.Op), e.Arena, micros(r, i, timed), timed)
		}
		state[i] = len(d.State.Op) - 1
		begins := len(d.State.Op) // of what lasts from the next change on
		if changes(e.Act) {
			begins--
		}
		if e.Phase != last.Phase {
			d.Phase = append(d.Phase, [2]int{begins, d.text(e.Phase)})
		}
		if e.Op != last.Op {
			d.By = append(d.By, [4]int{begins, int(e.Op), d.text(e.By.Op), d.text(e.By.Scope)})
		}
		last = *e
	}
	state[len(r.Events)] = len(d.State.Op)
	if timed {
		d.End = micros(r, len(r.Events)-1, true)
	}
	return state
}

// changes tells whether events of that kind change what is alive or as what.
func changes(a memory.Act) bool { return a == memory.Alloc || a == memory.Free || a == memory.SetKind }

func micros(r *Recording, i int, timed bool) float64 {
	if !timed {
		return 0
	}
	return float64(r.Times[i].Microseconds()) + float64(r.Times[i].Nanoseconds()/100%10)/10
}

func (d *pageData) put(op int, arena int64, time float64, timed bool) {
	d.State.Op, d.State.Arena = append(d.State.Op, op), append(d.State.Arena, arena)
	if timed {
		d.State.Time = append(d.State.Time, time)
	}
}

// tensor adds t, the i-th.
func (d *pageData) tensor(t *Tensor, i int, state []int) {
	at := func(event int) int {
		if event < 0 {
			return 0
		}
		return state[event]
	}
	c := &d.Tensor
	c.ID, c.Addr, c.Bytes = append(c.ID, t.ID), append(c.Addr, t.Addr), append(c.Bytes, t.Bytes)
	c.Kind, c.Spec = append(c.Kind, int(t.Kinds[0].Kind)), append(c.Spec, d.text(t.Spec))
	c.Op, c.Scope = append(c.Op, d.text(t.Site.Op)), append(c.Scope, d.text(t.Site.Scope))
	c.Born, c.Died = append(c.Born, at(t.Born)), append(c.Died, at(t.Died))
	var why []int
	for _, w := range t.reasons() {
		why = append(why, at(w.At), d.text(w.Text))
	}
	c.Why = append(c.Why, why)
	for _, k := range t.Kinds[1:] {
		d.Change = append(d.Change, i, at(k.At), int(k.Kind))
	}
}
