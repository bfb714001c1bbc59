package store

import "errors"

// A RegistryQuestion is what is asked of the program that speaks to registries, on its
// standard input. The answer is on its standard output: one JSON object each.
//
//	{"op":"list","place":"oci://HOST/NAME@sha256:HEX"}
//	    {"items":[{"name":NAME,"digest":"sha256:HEX"}]}
//	{"op":"get","place":…,"digest":"sha256:HEX","folder":PATH}
//	    {"file":PATH}, with the bundle in the folder, and its sidecars beside it
//	{"op":"put","place":…,"path":PATH}
//	    {"items":[{"name":NAME,"digest":"sha256:HEX"}]}
//
// In place of each there can be {"error":TEXT,"kind":KIND}; kind is unsafe, digest or
// too-large where it is about one bundle, and says nothing about the others.
type RegistryQuestion struct {
	Op     string `json:"op"`
	Place  string `json:"place"`
	Digest string `json:"digest,omitempty"`
	Folder string `json:"folder,omitempty"`
	Path   string `json:"path,omitempty"`
	Agent  string `json:"agent,omitempty"` // how requests introduce themselves
}

// A RegistryAnswer is what the program says.
type RegistryAnswer struct {
	Items []RegistryItem `json:"items,omitempty"`
	File  string         `json:"file,omitempty"`
	Error string         `json:"error,omitempty"`
	Kind  string         `json:"kind,omitempty"`
}

// A RegistryItem is a candidate in a registry.
type RegistryItem struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// registryKinds are the errors that are about one bundle.
var registryKinds = [...]struct {
	kind string
	err  error
}{{"unsafe", ErrUnsafe}, {"digest", ErrDigest}, {"too-large", ErrTooLarge}}

// RegistryFailure is the answer that says what went wrong.
func RegistryFailure(err error) RegistryAnswer {
	a := RegistryAnswer{Error: err.Error()}
	for _, k := range registryKinds {
		if errors.Is(err, k.err) {
			a.Kind = k.kind
		}
	}
	return a
}

// Err returns what went wrong, nil if nothing did.
func (a *RegistryAnswer) Err() error {
	if a.Error == "" {
		return nil
	}
	for _, k := range registryKinds {
		if a.Kind == k.kind {
			return &registryError{a.Error, k.err}
		}
	}
	return errors.New(a.Error)
}

// A registryError is an error of a kind, in the program's words.
type registryError struct {
	text string
	kind error
}

func (e *registryError) Error() string { return e.text }
func (e *registryError) Unwrap() error { return e.kind }
