//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// An engine is a command that makes containers.
type engine struct {
	path    string
	name    string // docker or podman
	version string // of the server
}

var engineDirs = []string{"/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/bin"}

// findEngine returns the first engine that answers.
var findEngine = sync.OnceValues(func() (engine, error) {
	why := "there is no docker or podman here"
	for _, name := range []string{"docker", "podman"} {
		for _, dir := range engineDirs {
			e := engine{path: filepath.Join(dir, name), name: name}
			if info, err := os.Stat(e.path); err != nil || info.Mode()&0o111 == 0 {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
			version, err := e.output(ctx, "version", "--format", "{{.Server.Version}}")
			cancel()
			if err != nil {
				why = name + ": " + err.Error()
				continue
			}
			e.version = version
			e.sweep()
			return e, nil
		}
	}
	return engine{}, errors.New(why)
})

// command prepares a call of the engine. It is the caller's own tool, so it
// sees the caller's environment; nothing of that goes into a container.
func (e engine) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.path, args...)
	cmd.Dir = "/"
	return cmd
}

// output runs the engine and returns what it printed, without the line end.
func (e engine) output(ctx context.Context, args ...string) (string, error) {
	cmd := e.command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		if line, _, _ := strings.Cut(strings.TrimSpace(errOut.String()), "\n"); line != "" {
			err = errors.New(line)
		}
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

// sweep removes the containers of dead owners.
func (e engine) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	list, err := e.output(ctx, "ps", "--all", "--no-trunc", "--filter", "label="+containerLabel, "--format", `{{.ID}} {{.Label "`+containerLabel+`"}}`)
	if err != nil {
		return
	}
	for line := range strings.Lines(list) {
		id, owner, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, start, _ := strings.Cut(owner, "-")
		if id != "" && startTime("/proc/"+pid) != start {
			e.output(ctx, "rm", "--force", "--volumes", id)
		}
	}
}

// An image is what a container is made of.
type image struct {
	id     string // config digest
	digest string // repository digest, where one exists
	path   string // PATH of its configuration
}

func (e engine) image(ctx context.Context, name string) (image, error) {
	text, err := e.output(ctx, "image", "inspect", "--", name)
	if err != nil {
		return image{}, err
	}
	var list []struct {
		ID           string `json:"Id"`
		RepoDigests  []string
		Architecture string
		Os           string
		Config       struct{ Env []string }
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
		return image{}, fmt.Errorf("%s: unexpected answer about image %q", e.name, name)
	}
	got := list[0]
	im := image{id: got.ID}
	if !strings.HasPrefix(im.id, "sha256:") {
		im.id = "sha256:" + im.id
	}
	if len(got.RepoDigests) > 0 {
		slices.Sort(got.RepoDigests)
		im.digest = got.RepoDigests[0]
	}
	for _, kv := range got.Config.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			im.path = v
		}
	}
	return im, nil
}
