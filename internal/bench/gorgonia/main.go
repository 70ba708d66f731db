// Gorgonia times the training step of the MLP of examples/bench with Gorgonia's tape machine: the other side of
// `go run ./internal/bench -only mlp.*gorgonia`. It prints one JSON object with the keys that both sides have.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

const in, hidden, classes = 784, 512, 10

// net is the graph: in -> hidden -> ReLU -> hidden -> ReLU -> classes, and the mean cross-entropy.
type net struct {
	graph   *gorgonia.ExprGraph
	x, y    *gorgonia.Node // images [B in], targets as 1 in a row of zeros [B classes]
	weights gorgonia.Nodes
	loss    *gorgonia.Node
	value   gorgonia.Value
}

func newNet(batch int) *net {
	g := gorgonia.NewGraph()
	n := &net{graph: g}
	n.x = gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(batch, in), gorgonia.WithName("x"), gorgonia.WithValue(zeros(batch, in)))
	n.y = gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(batch, classes), gorgonia.WithName("y"), gorgonia.WithValue(zeros(batch, classes)))
	h := gorgonia.Must(gorgonia.Rectify(n.linear(n.x, in, hidden)))
	h = gorgonia.Must(gorgonia.Rectify(n.linear(h, hidden, hidden)))
	n.cross(n.linear(h, hidden, classes), batch)
	if _, err := gorgonia.Grad(n.loss, n.weights...); err != nil {
		log.Fatal(err)
	}
	gorgonia.Read(n.loss, &n.value)
	return n
}

func zeros(shape ...int) tensor.Tensor {
	return tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32))
}

func (n *net) linear(x *gorgonia.Node, from, to int) *gorgonia.Node {
	id := strconv.Itoa(len(n.weights))
	w := gorgonia.NewMatrix(n.graph, tensor.Float32, gorgonia.WithShape(from, to), gorgonia.WithName("w"+id), gorgonia.WithInit(gorgonia.GlorotU(1)))
	b := gorgonia.NewMatrix(n.graph, tensor.Float32, gorgonia.WithShape(1, to), gorgonia.WithName("b"+id), gorgonia.WithInit(gorgonia.Zeroes()))
	n.weights = append(n.weights, w, b)
	return gorgonia.Must(gorgonia.BroadcastAdd(gorgonia.Must(gorgonia.Mul(x, w)), b, nil, []byte{0}))
}

// cross sets the loss: -sum(y log softmax(logits)) / batch.
func (n *net) cross(logits *gorgonia.Node, batch int) {
	p := gorgonia.Must(gorgonia.SoftMax(logits))
	sum := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(n.y, gorgonia.Must(gorgonia.Log(p))))))
	n.loss = gorgonia.Must(gorgonia.Div(gorgonia.Must(gorgonia.Neg(sum)), gorgonia.NewConstant(float32(batch))))
}

func (n *net) fill() {
	x, y := n.x.Value().Data().([]float32), n.y.Value().Data().([]float32)
	for i := range x {
		x[i] = float32(rand.NormFloat64())
	}
	clear(y)
	for row := range slices.Chunk(y, classes) {
		row[rand.IntN(classes)] = 1
	}
}

func main() {
	batch := flag.Int("batch", 128, "images a step")
	threads := flag.Int("threads", 2, "processors")
	steps := flag.Int("steps", 20, "steps to time")
	flag.String("model", "mlp", "the only one")
	flag.Parse()
	runtime.GOMAXPROCS(*threads)

	n := newNet(*batch)
	vm := gorgonia.NewTapeMachine(n.graph, gorgonia.BindDualValues(n.weights...))
	solver := gorgonia.NewAdamSolver(gorgonia.WithLearnRate(3e-4))
	var times []float64
	var losses []float32
	for range 2 + *steps {
		n.fill()
		begin := time.Now()
		if err := vm.RunAll(); err != nil {
			log.Fatal(err)
		}
		if err := solver.Step(gorgonia.NodesToValueGrads(n.weights)); err != nil {
			log.Fatal(err)
		}
		times = append(times, time.Since(begin).Seconds()*1e3)
		losses = append(losses, n.value.Data().(float32))
		vm.Reset()
	}
	times = times[2:]
	slices.Sort(times)
	err := json.NewEncoder(os.Stdout).Encode(map[string]any{
		"model": "mlp", "batch": *batch, "threads": *threads, "steps": 2 + *steps, "step_ms": times[len(times)/2],
		"loss_first": losses[0], "loss_last": losses[len(losses)-1], "rss_bytes": highest(),
	})
	if err != nil {
		log.Fatal(err)
	}
}

// highest is the highest resident set of this process, in bytes; 0 where Linux does not tell.
func highest() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
