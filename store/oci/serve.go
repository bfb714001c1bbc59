package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/truegreen-dev/truegreen/store"
)

// A question is what truegreen asks the program, on its standard input. The answer is on
// its standard output: one JSON object each.
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
type question struct {
	Op     string `json:"op"`
	Place  string `json:"place"`
	Digest string `json:"digest,omitempty"`
	Folder string `json:"folder,omitempty"`
	Path   string `json:"path,omitempty"`
	Agent  string `json:"agent,omitempty"` // how requests introduce themselves
}

type answer struct {
	Items []item `json:"items,omitempty"`
	File  string `json:"file,omitempty"`
	Error string `json:"error,omitempty"`
	Kind  string `json:"kind,omitempty"`
}

type item struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// maxQuestion bounds a question, in bytes.
const maxQuestion = 64 << 10

// Serve answers the question on in, with what login has for registries, and returns the
// exit code: 2 where in is no question.
func Serve(ctx context.Context, in io.Reader, out io.Writer, login auth.CredentialFunc) int {
	var q question
	text, err := io.ReadAll(io.LimitReader(in, maxQuestion))
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err != nil {
		fmt.Fprintln(out, "truegreen-oci: started by truegreen; its input is no question:", err)
		return 2
	}
	a, err := q.ask(ctx, login)
	if err != nil {
		a = answer{Error: err.Error()}
		for kind, is := range map[string]error{"unsafe": store.ErrUnsafe, "digest": store.ErrDigest, "too-large": store.ErrTooLarge} {
			if errors.Is(err, is) {
				a.Kind = kind
			}
		}
	}
	if err := json.NewEncoder(out).Encode(a); err != nil {
		return 1
	}
	return 0
}

func (q *question) ask(ctx context.Context, login auth.CredentialFunc) (answer, error) {
	p, err := store.Parse(q.Place)
	if err == nil && p.Kind != store.OCI {
		err = fmt.Errorf("%s: no place in a registry", p)
	}
	if err != nil {
		return answer{}, err
	}
	o := Options{UserAgent: q.Agent, Temp: q.Folder, Credential: login}
	if q.Op == "put" {
		c, err := Put(ctx, p, o, q.Path)
		return answer{Items: []item{{c.Name, c.Digest}}}, err
	}
	s, err := Open(p, o)
	if err != nil {
		return answer{}, err
	}
	list, err := s.List(ctx)
	if err != nil {
		return answer{}, err
	}
	var a answer
	for _, c := range list {
		switch {
		case q.Op == "list":
			a.Items = append(a.Items, item{c.Name, c.Digest})
		case q.Op == "get" && c.Digest == q.Digest:
			e, err := s.Open(ctx, c)
			if err != nil {
				return answer{}, err
			}
			a.File, err = keep(e, q.Folder)
			return a, errors.Join(err, e.Close())
		}
	}
	if q.Op != "list" {
		return answer{}, fmt.Errorf("%s: %s %q: it is not there", p, q.Op, q.Digest)
	}
	return a, nil
}

// keep writes evidence into a folder.
func keep(e *store.Evidence, folder string) (string, error) {
	const name = "evidence"
	path := filepath.Join(folder, name+store.BundleSuffix)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, io.NewSectionReader(e, 0, e.Size))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	for _, s := range e.Sidecars {
		if err := os.WriteFile(filepath.Join(folder, name+filepath.Ext(s.Name)), s.Bytes, 0o600); err != nil {
			return "", err
		}
	}
	return path, nil
}
