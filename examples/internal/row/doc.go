// Package row is what the examples that compare configurations have in common: one row of figures a configuration, the
// rows as JSON, as a table and as a chart, flags, progress, and the fresh child process behind the resident set.
//
// An example has a struct of settings, a struct of figures that embeds [Row], and a function that makes one of the other. It
// does for each configuration
//
//	f, err := row.Measure[figures](ctx, progress, name, settings)   // in the parent
//
// while the child, which is the same program, runs the function that the first line of main names:
//
//	func main() {
//		row.ServeChild(run)
//		row.Main(program)
//	}
//
//	func run(ctx context.Context, c settings, p *row.Progress) (f figures, err error) {
//		... // read the data
//		meter := row.StartResident()
//		... // build the model
//		err = f.PredictStep(sess, update)
//		... // train
//		f.Measure(dev.Stats())
//		f.RSS = meter.Peak()
//		return f, nil
//	}
//
// A test binary serves in TestMain, before m.Run: see [ServeChild]. Rows go to standard output, everything else to
// standard error.
package row
