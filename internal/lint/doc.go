// Package lint holds the tests that check the code of the whole module: who imports whom, what is documented, where
// panics are caught, how long functions are. Run it with the other tests; its tables are the places to change a rule, in
// the same commit as docs/design.md.
package lint
