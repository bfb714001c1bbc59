//go:build !linux

package main

import (
	"errors"
	"os"
)

// Only Linux runs tests, so only there is there something to hide from them.
func hideEnvironment(bool) {}

// environmentKey opens the key in the environment, nil if it holds none.
func (a *app) environmentKey() (func() (*os.File, error), error) {
	value := a.getenv(keyVariable)
	if value == "" {
		return nil, nil
	}
	secret, err := parseKeyVariable(value)
	if err != nil {
		return nil, err
	}
	return func() (*os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		_, err = w.Write(secret)
		return r, errors.Join(err, w.Close())
	}, nil
}
