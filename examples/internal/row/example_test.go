package row_test

import (
	"fmt"
	"os"

	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

// An example adds figures of its own by embedding the row.
func ExampleWriteJSON() {
	type ranked struct {
		row.Row
		Ranks int `json:"ranks"`
	}
	r := ranked{Row: row.Row{Name: "sharded", Loss: row.Num(0.25), Steps: 3}, Ranks: 2}
	r.Predict(512, 512, [memory.NumKinds]int64{memory.Param: 128, memory.Activation: 384})
	if err := row.WriteJSON(os.Stdout, []ranked{r}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// [
	//   {"name":"sharded","predicted_peak_bytes":512,"measured_peak_bytes":null,"arena_bytes":512,"rss_bytes":null,"by_kind":{"param":128,"grad":0,"optstate":0,"activation":384,"temporary":0,"scratch":0,"input":0,"staging":0,"castcopy":0,"other":0},"step_ms":null,"loss":0.25,"accuracy":null,"steps":3,"ranks":2}
	// ]
}

func ExampleTable() {
	base := row.Row{Name: "baseline"}
	base.Predict(4<<20, 4<<20, [memory.NumKinds]int64{memory.Param: 1 << 20, memory.Activation: 3 << 20})
	less := row.Row{Name: "micro-batches"}
	less.Predict(7<<18, 7<<18, [memory.NumKinds]int64{memory.Param: 1 << 20, memory.Activation: 3 << 18})
	if err := row.Table(os.Stdout, []row.Row{base, less}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// name           predicted  of base     arena
	// -------------  ---------  -------  --------
	// baseline        4.00 MiB   100.0%  4.00 MiB
	// micro-batches   1.75 MiB    43.8%  1.75 MiB
	//
	// peak by kind
	// name              param  activation
	// -------------  --------  ----------
	// baseline       1.00 MiB    3.00 MiB
	// micro-batches  1.00 MiB   768.0 KiB
}
