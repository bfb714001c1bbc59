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

// maxQuestion bounds a question, in bytes.
const maxQuestion = 64 << 10

// Serve answers the [store.RegistryQuestion] on in, with what login has for registries, and returns the
// exit code: 2 where in is no question.
func Serve(ctx context.Context, in io.Reader, out io.Writer, login auth.CredentialFunc) int {
	var q store.RegistryQuestion
	text, err := io.ReadAll(io.LimitReader(in, maxQuestion))
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err != nil {
		fmt.Fprintln(out, "truegreen-oci: started by truegreen; its input is no question:", err)
		return 2
	}
	a, err := ask(ctx, &q, login)
	if err != nil {
		a = store.RegistryFailure(err)
	}
	if err := json.NewEncoder(out).Encode(a); err != nil {
		return 1
	}
	return 0
}

func ask(ctx context.Context, q *store.RegistryQuestion, login auth.CredentialFunc) (store.RegistryAnswer, error) {
	p, err := store.Parse(q.Place)
	if err == nil && p.Kind != store.OCI {
		err = fmt.Errorf("%s: no place in a registry", p)
	}
	if err != nil {
		return store.RegistryAnswer{}, err
	}
	o := Options{UserAgent: q.Agent, Temp: q.Folder, Credential: login}
	if q.Op == "put" {
		c, err := Put(ctx, p, o, q.Path)
		return store.RegistryAnswer{Items: []store.RegistryItem{{Name: c.Name, Digest: c.Digest}}}, err
	}
	s, err := Open(p, o)
	if err != nil {
		return store.RegistryAnswer{}, err
	}
	list, err := s.List(ctx)
	if err != nil {
		return store.RegistryAnswer{}, err
	}
	var a store.RegistryAnswer
	for _, c := range list {
		switch {
		case q.Op == "list":
			a.Items = append(a.Items, store.RegistryItem{Name: c.Name, Digest: c.Digest})
		case q.Op == "get" && c.Digest == q.Digest:
			e, err := s.Open(ctx, c)
			if err != nil {
				return store.RegistryAnswer{}, err
			}
			a.File, err = keep(e, q.Folder)
			return a, errors.Join(err, e.Close())
		}
	}
	if q.Op != "list" {
		return store.RegistryAnswer{}, fmt.Errorf("%s: %s %q: it is not there", p, q.Op, q.Digest)
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
