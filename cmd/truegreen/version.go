package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

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
				dirty = " with changes"
			}
		}
	}
	if revision == "" {
		return "(devel)"
	}
	return short(revision) + dirty
}
