package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/verifier"
)

// Variables that name, in a re-executed process, the files that hold the key and
// the rest of the environment.
const (
	keyDescriptor     = "TRUEGREEN_KEY_FD"
	environDescriptor = "TRUEGREEN_ENVIRON_FD"
)

// hideEnvironment moves a key out of the environment, and for a program that
// runs tests everything else, too: a process's environment can be read in /proc
// for as long as it lives, whatever it unsets. What is hidden goes into anonymous
// files, and the program starts again without it. What goes wrong here with a
// key, [app.environmentKey] says.
func hideEnvironment(everything bool) {
	if restoreEnvironment() {
		return
	}
	value := os.Getenv(keyVariable)
	secret, err := parseKeyVariable(value)
	if err != nil && !everything {
		return
	}
	if err == nil {
		fd, err := anonymousFile("receipt key", secret)
		if err != nil {
			return
		}
		os.Unsetenv(keyVariable)
		os.Setenv(keyDescriptor, strconv.Itoa(fd))
	}
	environ := os.Environ()
	if everything {
		fd, err := anonymousFile("environment", []byte(strings.Join(environ, "\x00")))
		if err != nil {
			return
		}
		environ = []string{environDescriptor + "=" + strconv.Itoa(fd)}
	}
	if unix.Exec("/proc/self/exe", os.Args, environ) != nil && secret != nil {
		os.Unsetenv(keyDescriptor)
		os.Setenv(keyVariable, value)
	}
}

// restoreEnvironment reports whether this process has been started again, and
// sets what it was then told. No program that this one starts gets the files.
func restoreEnvironment() bool {
	again := false
	if fd, err := strconv.Atoi(os.Getenv(environDescriptor)); err == nil {
		again = true
		text, err := readAnonymousFile(fd)
		os.Unsetenv(environDescriptor)
		if err == nil {
			for kv := range strings.SplitSeq(string(text), "\x00") {
				name, value, _ := strings.Cut(kv, "=")
				os.Setenv(name, value)
			}
		}
	}
	if fd, err := strconv.Atoi(os.Getenv(keyDescriptor)); err == nil {
		again = true
		unix.CloseOnExec(fd)
	}
	return again
}

func anonymousFile(name string, content []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, 0)
	if err != nil {
		return -1, err
	}
	if n, err := unix.Write(fd, content); err != nil || n != len(content) {
		unix.Close(fd)
		return -1, fmt.Errorf("%s: %w", name, err)
	}
	return fd, nil
}

// readAnonymousFile reads such a file and ends it.
func readAnonymousFile(fd int) ([]byte, error) {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "environment")
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text := make([]byte, info.Size())
	_, err = f.ReadAt(text, 0)
	return text, err
}

// environmentKey opens the key that the environment held, nil if it held none.
// Each file that it returns begins at the start.
func (a *app) environmentKey() (func() (*os.File, error), error) {
	if value := a.getenv(keyVariable); value != "" {
		if _, err := parseKeyVariable(value); err != nil {
			return nil, err
		}
		return nil, &codeError{verifier.KeyUnsafe, fmt.Errorf("%s could not be taken out of the environment; use a key file", keyVariable)}
	}
	fd, err := strconv.Atoi(a.getenv(keyDescriptor))
	if err != nil {
		return nil, nil
	}
	return func() (*os.File, error) { return os.Open("/proc/self/fd/" + strconv.Itoa(fd)) }, nil
}
