package main

import "github.com/spf13/cobra"

// What the value of a flag is completed with; "" is nothing.
const (
	completeFile   = "file"
	completeFolder = "folder"
	completeBundle = "bundle"
)

// completes says for the shell what the flags of a command take.
func completes(cmd *cobra.Command, flags map[string]string) {
	for name, what := range flags {
		f := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			switch what {
			case completeFile:
				return nil, cobra.ShellCompDirectiveDefault
			case completeFolder:
				return nil, cobra.ShellCompDirectiveFilterDirs
			case completeBundle:
				return []cobra.Completion{"zst"}, cobra.ShellCompDirectiveFilterFileExt
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if err := cmd.RegisterFlagCompletionFunc(name, f); err != nil {
			panic(err) // there is no such flag
		}
	}
}

// completeBundles completes the first argument of a command with bundles.
func completeBundles(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []cobra.Completion{"zst"}, cobra.ShellCompDirectiveFilterFileExt
}
