package main

import (
	"github.com/spf13/cobra"

	"github.com/truegreen-dev/truegreen/internal/prepush"
)

func (a *app) hookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Hold git push to evidence, before anything leaves this machine",
		Long: `The pre-push hook looks for evidence of each commit that a push would bring to a
remote: a run of truegreen on the same tree, in the same repository, by the
configuration of the base. docs/hook.md says what counts, and how it goes with
other hooks. It is for you: git push --no-verify goes past it.`,
		Example: "  truegreen hook install\n  truegreen hook status",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.hookInstallCommand(), a.hookUninstallCommand(), a.hookStatusCommand(), a.hookPushCommand())
	return cmd
}

func (a *app) hookInstallCommand() *cobra.Command {
	var repo, mode string
	var notes bool
	cmd := &cobra.Command{
		Use: "install", Short: "Install the hook, in front of one that is there", Args: cobra.NoArgs,
		Long: `install writes the hook pre-push where Git looks for it, also where core.hooksPath
says another folder. A hook that is there is kept beside it, and is called after
it with the same arguments and the same input. To install again changes the mode.

  require  a push without evidence is blocked, with the command that makes it
  run      the evidence is made then, and a verdict that is not verified blocks
  warn     it is said, and the push goes on`,
		Example: "  truegreen hook install\n  truegreen hook install --mode run --notes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := prepush.ParseMode(mode)
			if err != nil {
				return usage("--mode: %v", err)
			}
			return a.hookInstall(cmd.Context(), repo, prepush.Script{Mode: m, Notes: notes})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&mode, "mode", string(prepush.Require), "what a push without evidence comes to: require, run or warn")
	flags.BoolVar(&notes, "notes", false, "attach a Git note that names the bundle to what passes, in refs/notes/truegreen")
	flags.StringVar(&repo, "repo", ".", "a folder in the repository")
	completes(cmd, map[string]string{"repo": completeFolder, "mode": ""})
	return cmd
}

func (a *app) hookUninstallCommand() *cobra.Command {
	var repo string
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Remove the hook, and put back what was there", Args: cobra.NoArgs,
		Example: "  truegreen hook uninstall",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.hookUninstall(cmd.Context(), repo) },
	}
	cmd.Flags().StringVar(&repo, "repo", ".", "a folder in the repository")
	completes(cmd, map[string]string{"repo": completeFolder})
	return cmd
}

func (a *app) hookStatusCommand() *cobra.Command {
	var repo string
	cmd := &cobra.Command{
		Use: "status", Short: "Say whether the hook is installed, where, and how", Args: cobra.NoArgs,
		Example: "  truegreen hook status --json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.hookStatus(cmd.Context(), repo) },
	}
	cmd.Flags().StringVar(&repo, "repo", ".", "a folder in the repository")
	completes(cmd, map[string]string{"repo": completeFolder})
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) hookPushCommand() *cobra.Command {
	f := pushFlags{}
	var mode string
	cmd := &cobra.Command{
		Use: "pre-push [flags] REMOTE [URL]", Short: "Be the hook: what Git, or a manager of hooks, calls",
		Long: `pre-push reads from standard input what git push is about to do, as Git writes it
for a hook, and exits with 0 where the push may go on. A deletion always may, and
so may what the remote has already.

The variable TRUEGREEN_SKIP, with a reason as its value, lets a push go without
evidence. It is recorded in skips.jsonl in the state folder.`,
		Example: `  truegreen hook pre-push "$@"      # in a hook of your own; input comes from Git
  truegreen hook pre-push --pre-commit-env
  TRUEGREEN_SKIP='the fix of the outage' git push`,
		Args: func(_ *cobra.Command, args []string) error {
			if f.preCommit && len(args) > 0 {
				return usage("%q: with --pre-commit-env the remote comes from the environment", args[0])
			}
			if !f.preCommit && (len(args) == 0 || len(args) > 2) {
				return usage("want the name of the remote and its URL, as Git gives them to a hook, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := prepush.ParseMode(mode)
			if err != nil {
				return usage("--mode: %v", err)
			}
			f.mode, f.args = m, args
			return a.hookPush(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&mode, "mode", string(prepush.Require), "what a push without evidence comes to: require, run or warn")
	flags.BoolVar(&f.notes, "notes", false, "attach a Git note that names the bundle to what passes, in refs/notes/truegreen")
	flags.BoolVar(&f.preCommit, "pre-commit-env", false, "take what is pushed from the variables of the pre-commit framework")
	flags.StringVar(&f.chain, "chain", "", "a hook to call afterwards, with the same arguments and input, if it is there")
	completes(cmd, map[string]string{"mode": "", "chain": completeFile})
	return cmd
}
