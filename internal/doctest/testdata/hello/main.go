// Command hello is what the tests of doctest run.
package main

import "fmt"

func main() { fmt.Print("hello\n\nworld\n") }
