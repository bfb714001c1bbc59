package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/bundle"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Example: "  truegreen version\n  truegreen version --json",
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if a.json {
				return a.printJSON(struct {
					Version  string `json:"version"`
					Format   int    `json:"bundle_format"`
					Go       string `json:"go"`
					Platform string `json:"platform"`
				}{version(), bundle.SealFormat, runtime.Version(), platform})
			}
			fmt.Fprintf(a.out, "truegreen %s, bundle format %d, %s %s\n", version(), bundle.SealFormat, runtime.Version(), platform)
			return nil
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

// version returns the module's version, or the commit that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = withChanges
			}
		}
	}
	if revision == "" {
		return "(devel)"
	}
	return short(revision) + dirty
}

// programVersion is what a run's plan has as the version of the program. Of a build
// that no release or commit names, it says which it is.
func programVersion() string {
	v := version()
	if v != "unknown" && v != "(devel)" && !strings.HasSuffix(v, withChanges) {
		return v
	}
	path, err := os.Executable()
	if err != nil {
		return v
	}
	f, err := os.Open(path)
	if err != nil {
		return v
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return v
	}
	return fmt.Sprintf("%s %x", v, sum.Sum(nil)[:8])
}

const withChanges = " with changes"
