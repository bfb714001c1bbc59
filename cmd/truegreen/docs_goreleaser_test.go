package main

import (
	"bytes"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v4"
)

// checkGoReleaser reads the page's configuration of GoReleaser, and has this program read
// the arguments of its hook.
func checkGoReleaser(t *testing.T, page string) {
	t.Helper()
	found := 0
	for _, b := range docBlocks(t, page) {
		if !strings.HasPrefix(b.text, "version: 2\n") {
			continue
		}
		found++
		var c struct {
			Version int `yaml:"version"`
			Before  struct {
				Hooks []string `yaml:"hooks"`
			} `yaml:"before"`
			Release struct {
				Files []struct {
					Glob string `yaml:"glob"`
				} `yaml:"extra_files"`
			} `yaml:"release"`
		}
		d := yaml.NewDecoder(strings.NewReader(b.text))
		d.KnownFields(true)
		if err := d.Decode(&c); err != nil || len(c.Before.Hooks) != 1 || len(c.Release.Files) != 1 || c.Release.Files[0].Glob != "evidence/*" {
			t.Errorf("%s:%d: %+v, %v", page, b.line, c, err)
			continue
		}
		hook, err := template.New("hook").Option("missingkey=error").Parse(c.Before.Hooks[0])
		var line bytes.Buffer
		if err == nil {
			err = hook.Execute(&line, map[string]string{"Tag": "v1.4.0", "FullCommit": strings.Repeat("0", 40)})
		}
		if err != nil {
			t.Errorf("%s:%d: %v", page, b.line, err)
			continue
		}
		args := strings.Fields(line.String())
		a := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}, getenv: func(string) string { return "" }}
		root := a.root()
		cmd, rest, err := root.Find(args[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil || args[0] != "truegreen" || cmd.Name() != "gate" || cmd.Flags().NArg() != 0 {
			t.Errorf("%s:%d: %q: %v", page, b.line, args, err)
		}
	}
	if found != 1 {
		t.Errorf("%s: %d configurations of GoReleaser", page, found)
	}
}
