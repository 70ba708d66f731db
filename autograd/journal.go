package autograd

import (
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// journaled is a storage that the running step may overwrite, and what it held before.
type journaled struct{ buf, old *memory.Buffer }

// JournalTensor sees to it that t's storage, whole, is put back if the running step fails: for statistics and averages
// that a step updates in place. It is called before the first write; the copy that it takes, counted as Temporary, lives
// until the step ends. Later calls for the same storage in the same step do nothing. In a dry run, which writes nothing,
// the copy is only counted. Parameters and gradients have rules of their own.
func (s *Scope) JournalTensor(t *tensor.Tensor) {
	ss := s.live("journal")
	ss.enter("journal", s.path)
	defer ss.leave()
	b := t.Buffer()
	for i := range ss.journal {
		if ss.journal[i].buf == b {
			return
		}
	}
	old, err := ss.dev.Alloc(b.Size(), memory.Temporary, memory.Site{Op: "journal", Scope: s.path})
	if err != nil {
		raise("journal", s.path, []tensor.Spec{t.Spec()}, err)
	}
	if !ss.Dry() {
		copy(old.Bytes(), b.Bytes())
	}
	ss.journal = append(ss.journal, journaled{b.Retain(), old})
}

// endJournal lets go of the copies, after they have been put back if the step failed.
func (ss *Session) endJournal(failed bool) {
	for i := len(ss.journal) - 1; i >= 0; i-- {
		e := ss.journal[i]
		if failed && !ss.Dry() {
			copy(e.buf.Bytes(), e.old.Bytes())
			e.buf.Bump()
		}
		e.old.Release()
		e.buf.Release()
	}
	clear(ss.journal)
	ss.journal = ss.journal[:0]
}
