// Package lazy puts off what would make every start of the program slower.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp compiles an expression when it is first used. Most processes of this program
// are the stages of a sandbox, which use none and start often.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
