// Package row is what the examples that compare configurations have in common: one row of figures a configuration, the
// rows as JSON, as a table and as a chart, progress, and the fresh child process behind the resident set.
//
// An example keeps its configurations in one list and does for each of them
//
//	err := row.RunChild(ctx, name, &r, progress)   // in the parent
//
// while the child, which is the same program, is served by the first line of main:
//
//	row.ServeChild(func(ctx context.Context, name string, p *row.Progress) (any, error) {
//		... // read the data
//		meter := row.StartResident()
//		... // build the model, train
//		r.RSS = meter.Peak()
//		return r, nil
//	})
//
// A test binary serves in TestMain, before m.Run: see [ServeChild]. Rows go to standard output, everything else to
// standard error.
package row
