// Package storetest reads stores in tests.
package storetest

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/truegreen-dev/truegreen/store"
)

// All opens what is in a store, and returns the contents by their names.
// Nothing may be left in the folder for downloads, unless it is "".
func All(t testing.TB, s store.Store, temp string) (map[string]string, error) {
	t.Helper()
	list, err := s.List(t.Context())
	if err != nil {
		return nil, err
	}
	got := map[string]string{}
	var errs []error
	for _, c := range list {
		e, err := s.Open(t.Context(), c)
		if err != nil {
			if e != nil {
				t.Errorf("%s: evidence beside %v", c.Name, err)
			}
			errs = append(errs, err)
			continue
		}
		text, err := io.ReadAll(io.NewSectionReader(e, 0, e.Size))
		if err != nil {
			t.Error(err)
		}
		content := string(text)
		for _, s := range e.Sidecars {
			content += "|" + s.Name + "=" + string(s.Bytes)
		}
		got[c.Name] = content
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if temp != "" {
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	return got, errors.Join(errs...)
}

// Write writes a file.
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
