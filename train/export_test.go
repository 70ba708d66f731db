package train

// The file layer as an argument, for tests in which it fails.
var (
	SaveTo   = save
	LoadFrom = load
)
