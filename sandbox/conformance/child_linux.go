//go:build amd64 || arm64

package conformance

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The names that the parts of a run go by.
const (
	nameInside     = "truegreen-conformance"            // Inside, row ids
	nameSupervisor = "truegreen-conformance-supervisor" // JSON of order
	nameVictim     = "truegreen-conformance-victim"     // mark; lives until standard input ends
	nameSurvivor   = "truegreen-conformance-survivor"   // mark, "sleep" or "fork"; see survivorMain
)

// Child must be called first thing in main, and in TestMain of packages whose
// tests use this one, after sandbox.Child. In a process that is part of a run
// it does that process's work and never returns; otherwise it returns at once.
func Child() {
	if len(os.Args) < 2 {
		return
	}
	args := os.Args[1:]
	switch filepath.Base(os.Args[0]) {
	case nameInside:
		syscall.Exit(insideMain(args[0], args[1:]))
	case nameSupervisor:
		syscall.Exit(supervisorMain(args[0]))
	case nameVictim:
		syscall.Exit(victimMain())
	case nameSurvivor:
		syscall.Exit(survivorMain(args))
	}
}

// workName is the variable that says where the work folder is inside.
const workName = "TRUEGREEN_CONFORMANCE_WORK"

// rowTimeout bounds one attempt.
const rowTimeout = 20 * time.Second

// insideMain makes the attempts and answers each with a line.
func insideMain(config string, ids []string) int {
	var in Inside
	b, err := hex.DecodeString(config)
	if err == nil {
		err = json.Unmarshal(b, &in)
	}
	if err != nil {
		say("config: " + err.Error())
		return 1
	}
	if work := os.Getenv(workName); work != "" {
		in.Work = work
	}
	signal.Ignore(unix.SIGHUP) // rows open terminals, and terminals hang up
	for _, id := range ids {
		row, ok := find(id)
		if !ok {
			say(id + "\tno such row")
			continue
		}
		say(id + "\t" + onThread(rowTimeout, func() string { return row.Try(&in) }))
	}
	return 0
}

// onThread runs f on a thread that ends with it: f may change the thread as
// it likes. A panic is "died", a stop "hung".
func onThread(limit time.Duration, f func() string) string {
	ch := make(chan string, 1)
	go func() {
		runtime.LockOSThread()
		defer func() {
			if recover() != nil {
				ch <- "died"
			}
		}()
		ch <- f()
	}()
	select {
	case got := <-ch:
		return got
	case <-time.After(limit):
		return "hung"
	}
}

// say writes one line to standard output.
func say(line string) {
	head, tail, tabbed := strings.Cut(line, "\t")
	line = oneLine(head)
	if tabbed {
		line += "\t" + oneLine(tail)
	}
	b := []byte(line + "\n")
	for len(b) > 0 {
		n, err := unix.Write(1, b)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		b = b[n:]
	}
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// victimMain is a process that does nothing, for as long as its parent lives.
func victimMain() int {
	say("ready")
	var b [1]byte
	for {
		n, err := unix.Read(0, b[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return 0
		}
	}
}
