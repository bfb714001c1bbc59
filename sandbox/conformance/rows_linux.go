//go:build amd64 || arm64

package conformance

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/truegreen-dev/truegreen/sandbox"
)

// Modes returns the modes that promise something, strongest first.
func Modes() []sandbox.Mode {
	return []sandbox.Mode{sandbox.ModeRootDrop, sandbox.ModeUserNS, sandbox.ModeRestricted}
}

// Rows returns the table, in order: by number, and what must work at the end.
func Rows() []Row {
	rows := slices.Concat(
		processRows(),
		endingRows(),
		fileRows(),
		collectRows(),
		mountRows(),
		kernelRows(),
		machineRows(),
		networkRows(),
		resourceRows(),
		channelRows(),
		toolchainRows(),
		mustRows(),
	)
	slices.SortStableFunc(rows, func(a, b Row) int {
		n := number(a.ID)
		if n == last {
			return cmp.Compare(n, number(b.ID))
		}
		return cmp.Or(cmp.Compare(n, number(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return rows
}

// number returns the number that an ID begins with.
func number(id string) int {
	n, err := strconv.Atoi(strings.TrimRight(id, "abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		return last
	}
	return n
}

// last is where rows without a number go, in the order in which they are given.
const last = math.MaxInt

// table is what the processes inside and outside look rows up in.
var table = Rows

func find(id string) (Row, bool) {
	rows := table()
	i := slices.IndexFunc(rows, func(r Row) bool { return r.ID == id })
	if i < 0 {
		return Row{}, false
	}
	return rows[i], true
}
