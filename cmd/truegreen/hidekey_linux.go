package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/truegreen-dev/truegreen/verifier"
)

// keyDescriptor names, in a re-executed process, the file that holds the key.
const keyDescriptor = "TRUEGREEN_KEY_FD"

// hideKey moves a key out of the environment: a process's environment can be
// read in /proc for as long as it lives, whatever it unsets. The key goes into
// an anonymous file, and the program starts again without the variable. What
// goes wrong here, [app.environmentKey] says.
func hideKey() {
	if fd, err := strconv.Atoi(os.Getenv(keyDescriptor)); err == nil {
		unix.CloseOnExec(fd) // no program that this one starts gets it
	}
	value := os.Getenv(keyVariable)
	secret, err := parseKeyVariable(value)
	if err != nil {
		return
	}
	fd, err := unix.MemfdCreate("receipt key", 0)
	if err != nil {
		return
	}
	if n, err := unix.Write(fd, secret); err != nil || n != len(secret) {
		return
	}
	os.Unsetenv(keyVariable)
	os.Setenv(keyDescriptor, strconv.Itoa(fd))
	err = unix.Exec("/proc/self/exe", os.Args, os.Environ())
	if err != nil {
		os.Setenv(keyVariable, value)
	}
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
