package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// A service listens on the loopback interface of the host, as a database would.
type service struct {
	mu    sync.Mutex
	lines []string
}

func serve(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) != 1, "serve NAME")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	s := &service{}
	ts.Value("services").(map[string]*service)[args[0]] = s
	ts.Setenv(args[0], fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.answer(c)
		}
	}()
}

func (s *service) answer(c net.Conn) {
	defer c.Close()
	line, err := bufio.NewReader(io.LimitReader(c, 1<<10)).ReadString('\n')
	if err != nil {
		line += "(cut off)\n"
	}
	s.mu.Lock()
	s.lines = append(s.lines, line[:len(line)-1])
	s.mu.Unlock()
	io.WriteString(c, "ready\n")
}

func served(ts *testscript.TestScript, neg bool, args []string) {
	usageIf(ts, neg || len(args) < 1, "served NAME PATTERN…")
	s := ts.Value("services").(map[string]*service)[args[0]]
	s.mu.Lock()
	defer s.mu.Unlock()
	same := len(s.lines) == len(args)-1
	for i := 0; same && i < len(s.lines); i++ {
		pattern, err := regexp.Compile("^(?:" + args[i+1] + ")$")
		ts.Check(err)
		same = pattern.MatchString(s.lines[i]) && !slices.Contains(s.lines[:i], s.lines[i])
	}
	if !same {
		ts.Fatalf("%s: %q, want %q, each another one", args[0], s.lines, args[1:])
	}
}
