package checkpoint

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

type watcher struct{}

func watcherOf(m autograd.Memo) *watcher { w, _ := m.(*watcher); return w }

func (w *watcher) saved(fr *frame, p *place)                                              {}
func (w *watcher) begin(fr *frame)                                                        {}
func (w *watcher) end(fr *frame)                                                          {}
func (w *watcher) Record(rule *autograd.Rule, at memory.Site, outs []tensor.Tensor) error { return nil }
func (w *watcher) Recall(rule *autograd.Rule, at memory.Site, _ []tensor.Spec) ([]tensor.Tensor, bool, error) {
	return nil, false, nil
}
func (w *watcher) Keeps(*memory.Buffer) bool { return false }
