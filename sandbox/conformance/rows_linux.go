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
func Modes() []sandbox.Mode { return []sandbox.Mode{sandbox.ModeRootDrop, sandbox.ModeUserNS} }

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
	)
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(number(a.ID), number(b.ID)) })
	return rows
}

// number returns the number that an ID begins with.
func number(id string) int {
	n, err := strconv.Atoi(strings.TrimRight(id, "abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		return math.MaxInt
	}
	return n
}

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
