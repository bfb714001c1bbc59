package runner

import (
	"regexp"
	"sync"
)

// lazyRegexp compiles an expression when it is first used: most processes of
// this program are the stages of a sandbox, which use none and start often.
func lazyRegexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
