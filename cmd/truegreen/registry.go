package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/truegreen-dev/truegreen/store"
)

const (
	ociProgram  = "truegreen-oci"
	ociPatience = 10 * time.Second // beyond the limits that the program keeps itself
)

// A registry is what refers to an image in a registry, as a program of its own finds it:
// see package oci, whose client would make every start of this one slower.
type registry struct {
	place store.Place
	temp  string
	agent string
}

// ask has the program answer a question.
func (r *registry) ask(ctx context.Context, limit time.Duration, question store.RegistryQuestion) (store.RegistryAnswer, error) {
	program, err := findProgram(ociProgram)
	if err != nil {
		return store.RegistryAnswer{}, fmt.Errorf("%s: %s speaks to registries, and %w", r.place, ociProgram, err)
	}
	question.Place, question.Agent = r.place.String(), r.agent
	text, err := json.Marshal(question)
	if err != nil {
		return store.RegistryAnswer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit+ociPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = ociPatience
	out, err := cmd.Output()
	if err != nil {
		return store.RegistryAnswer{}, fmt.Errorf("%s: %s: %w", r.place, ociProgram, err)
	}
	var a store.RegistryAnswer
	if err := json.Unmarshal(out, &a); err != nil {
		return store.RegistryAnswer{}, fmt.Errorf("%s: %s: %w", r.place, ociProgram, err)
	}
	if err := a.Err(); err != nil {
		return store.RegistryAnswer{}, err
	}
	return a, nil
}

// List implements [store.Store].
func (r *registry) List(ctx context.Context) ([]store.Candidate, error) {
	a, err := r.ask(ctx, store.ListTime, store.RegistryQuestion{Op: "list"})
	var list []store.Candidate
	for _, i := range a.Items {
		list = append(list, store.NewCandidate(i.Name, i.Digest, nil))
	}
	return list, err
}

// Open implements [store.Store].
func (r *registry) Open(ctx context.Context, c store.Candidate) (*store.Evidence, error) {
	dir, err := os.MkdirTemp(r.temp, "truegreen-evidence-*")
	if err != nil {
		return nil, err
	}
	a, err := r.ask(ctx, store.ListTime+store.OpenTime, store.RegistryQuestion{Op: "get", Digest: c.Digest, Folder: dir})
	var e *store.Evidence
	if err == nil {
		e, err = store.OpenFile(a.File)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	e.OnClose(func() error { return os.RemoveAll(dir) })
	return e, nil
}

// put puts a bundle there.
func (r *registry) put(ctx context.Context, path string) (store.Candidate, error) {
	a, err := r.ask(ctx, store.OpenTime, store.RegistryQuestion{Op: "put", Path: path})
	if err == nil && len(a.Items) != 1 {
		err = fmt.Errorf("%s: %s: %d items", r.place, ociProgram, len(a.Items))
	}
	if err != nil {
		return store.Candidate{}, err
	}
	return store.NewCandidate(a.Items[0].Name, a.Items[0].Digest, nil), nil
}
