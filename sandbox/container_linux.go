//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mode container has an engine, docker or podman, make the walls. A remote
// supervisor, which is this program, is the container's first process; no
// directory of the host and no socket is in there, and everything goes through
// its standard streams. What is done inside, and what is probed, is that of
// mode restricted.

// containerLabel marks the containers that are made here. Its value tells the
// owner: pid and start time.
const containerLabel = "dev.truegreen.sandbox"

func containerOwner() string { return fmt.Sprintf("%d-%s", os.Getpid(), startTime("/proc/self")) }

// entryDir holds the supervisor inside, on a volume that goes with the
// container: a read-only root takes no files.
const entryDir = "/.truegreen"

// entryPath returns the program that runs inside: this one, if it needs no
// libraries.
func (s *Spec) entryPath() (string, error) {
	p := s.remote.entry
	if p == "" {
		var err error
		if p, err = os.Executable(); err != nil {
			return "", err
		}
	}
	f, err := elf.Open(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for _, prog := range f.Progs {
		if prog.Type == elf.PT_INTERP {
			return "", errors.New("this program is linked dynamically and may not start in the image")
		}
	}
	return p, nil
}

// A container is one that exists.
type container struct {
	engine engine
	id     string
}

// runContainer runs the Spec in a container.
func runContainer(ctx context.Context, spec Spec, probeOnly bool) (Result, error) {
	if spec.Image == "" {
		return Result{}, &refusal{Step: "choose an image", Errno: "none is named"}
	}
	// The clock runs inside; this is for an engine that hangs.
	ctx, cancel := context.WithTimeoutCause(ctx, spec.Limits.Wall+4*setupTimeout, errors.New("the engine does not answer"))
	defer cancel()
	e, err := findEngine()
	if err != nil {
		return Result{}, &refusal{Step: "find an engine", Errno: err.Error()}
	}
	im, err := e.image(ctx, spec.Image)
	if err != nil {
		return Result{}, &refusal{Step: "inspect image " + spec.Image, Errno: err.Error()}
	}
	entry, err := spec.entryPath()
	if err != nil {
		return Result{}, &refusal{Step: "choose the container's first process", Errno: err.Error()}
	}
	canary, err := plantCanary(ModeContainer)
	if err != nil {
		return Result{}, err
	}
	defer canary.remove()

	c, err := e.create(ctx, spec, im)
	if err != nil {
		return Result{}, &refusal{Step: "create a container", Errno: err.Error()}
	}
	defer c.remove()
	if _, err := e.output(ctx, "cp", "--", entry, c.id+":"+entryDir+"/init"); err != nil {
		return Result{}, &refusal{Step: "copy this program into the container", Errno: err.Error()}
	}
	p, err := startRemote(e.path, []string{e.name, "start", "--attach", "--interactive", c.id}, os.Environ())
	if err != nil {
		return Result{}, &refusal{Step: "start the container", Errno: errnoText(err)}
	}
	defer p.close()
	iso := Isolation{Mode: ModeContainer, Via: e.name + " " + e.version, Image: im.id, ImageDigest: im.digest, Network: spec.Network, Kill: "container"}
	p.approve = func(inner judgement) error { return c.judge(ctx, &iso, inner, canary, spec.MinLevel) }
	p.inside = &canary.plan
	p.path = im.path
	r, err := p.run(ctx, spec, ModeRestricted, probeOnly)
	if errors.Is(err, errNoHello) {
		why := "its first process did not start"
		if text := p.complaint(); text != "" {
			why = text
		}
		return Result{}, &refusal{Step: "start the container", Errno: why}
	}
	if err != nil {
		return Result{}, err
	}
	iso.Limits = c.limits(ctx, r.Isolation.Limits, spec.Limits)
	r.Isolation = iso
	return r, nil
}

// create makes a container that has the image's files, tmpfs where the
// command may write, and nothing else.
func (e engine) create(ctx context.Context, spec Spec, im image) (*container, error) {
	l := spec.Limits
	user := strconv.Itoa(firstUID) + ":" + strconv.Itoa(firstUID)
	network := "none"
	if spec.Network == NetworkHost {
		network = "bridge"
	}
	args := []string{
		"create", "--interactive", "--log-driver", "none", "--pull", "never", "--hostname", "sandbox",
		"--label", containerLabel + "=" + containerOwner(),
		"--network", network, "--read-only", "--user", user, "--workdir", "/",
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--ipc", "private",
		"--pids-limit", strconv.Itoa(l.Pids), "--memory", strconv.FormatInt(l.Memory, 10), "--memory-swap", strconv.FormatInt(l.Memory, 10),
		"--ulimit", "core=0", "--shm-size", strconv.FormatInt(l.Disk, 10), "--no-healthcheck",
		"--mount", "type=volume,dst=" + entryDir, "--entrypoint", entryDir + "/init",
	}
	if network == "none" {
		args = append(args, "--dns", "127.0.0.1") // or the host's would be told
	}
	if l.CPU > 0 {
		// Not --cpus, of which docker takes no more than the host has.
		quota, period := cpuShare(l.CPU)
		args = append(args, "--cpu-quota", strconv.FormatInt(quota, 10), "--cpu-period", strconv.FormatInt(period, 10))
	}
	options := fmt.Sprintf(":rw,exec,nosuid,nodev,size=%d,nr_inodes=%d,uid=%d,gid=%d,mode=", l.Disk, l.Inodes, firstUID, firstUID)
	for _, d := range []struct{ target, mode string }{{"/tmp", "1777"}, {"/var/tmp", "1777"}, {homeDir, "755"}} {
		args = append(args, "--tmpfs", d.target+options+d.mode)
	}
	for _, target := range topTargets(spec.Mounts) {
		if strings.ContainsAny(target, ":,") {
			return nil, fmt.Errorf("mount target %s: an engine takes no colon or comma", target)
		}
		args = append(args, "--tmpfs", target+options+"755")
	}
	id, err := e.output(ctx, append(args, im.id, nameRemote)...)
	if err != nil {
		return nil, err
	}
	return &container{e, id}, nil
}

// topTargets returns the mount targets that do not lie within one another, nor
// in what is writable anyway: for a file, its directory.
func topTargets(mounts []Mount) []string {
	var list []string
	for _, m := range mounts {
		target := m.Target
		if info, err := os.Stat(m.Source); m.Kind != Scratch && err == nil && !info.IsDir() {
			target = filepath.Dir(target) // a tmpfs is a directory
		}
		within := func(dir string) bool { return below(target, dir) }
		if !slices.ContainsFunc(list, within) && !within("/tmp") && !within("/var/tmp") && !within(homeDir) {
			list = slices.DeleteFunc(list, func(old string) bool { return below(old, target) })
			list = append(list, target)
		}
	}
	return list
}

// judge looks at the container from outside, while its command waits.
func (c *container) judge(ctx context.Context, iso *Isolation, j judgement, canary *canary, least Level) error {
	inner := j.Isolation
	for _, ns := range namespaceNames {
		if theirs, ok := j.Namespaces[ns]; ok && theirs != ownNamespaces()[ns] {
			iso.Namespaces = append(iso.Namespaces, ns)
		}
	}
	iso.UID, iso.NoNewPrivs, iso.CapsEmpty, iso.Seccomp, iso.Landlock, iso.Root =
		inner.UID, inner.NoNewPrivs, inner.CapsEmpty, inner.Seccomp, inner.Landlock, inner.Root
	iso.Counted = inner.Counted
	iso.Probes = append(slices.Clone(inner.Probes), canary.silent())
	text, err := c.engine.output(ctx, "inspect", "--format", "{{.State.Pid}}", c.id)
	if err != nil {
		return &refusal{Step: "inspect the container", Errno: err.Error()}
	}
	pid, err := strconv.Atoi(text)
	if err != nil || pid < 1 {
		return &refusal{Step: "inspect the container", Errno: "it does not run"}
	}
	// An engine on another machine names a process of that one. Of one
	// that is ours to look at, this kernel's account counts.
	if cmdline, err := os.ReadFile("/proc/" + text + "/cmdline"); err == nil && bytes.HasPrefix(cmdline, []byte(entryDir+"/init\x00")) {
		outside := Isolation{}
		if err := observe(pid, &outside, j.Namespaces); err != nil {
			return &refusal{Step: "observe sandbox", Errno: err.Error()}
		}
		iso.Namespaces, iso.UID = outside.Namespaces, outside.UID
		iso.NoNewPrivs, iso.CapsEmpty = iso.NoNewPrivs && outside.NoNewPrivs, iso.CapsEmpty && outside.CapsEmpty
	}
	canary.remove()
	var lacks string
	if iso.Level, lacks = level(*iso); iso.Level < least {
		return &refusal{Step: "measured level " + iso.Level.String(), Errno: lacks, Level: true}
	}
	return nil
}

// limits adds what the engine enforces, as it has recorded it.
func (c *container) limits(ctx context.Context, inner []Limit, l Limits) []Limit {
	text, err := c.engine.output(ctx, "inspect", "--format", "{{.HostConfig.PidsLimit}} {{.HostConfig.Memory}} {{.HostConfig.CpuQuota}} {{.HostConfig.CpuPeriod}} {{.State.OOMKilled}}", c.id)
	f := strings.Fields(text)
	list := slices.Clone(inner)
	for i := range list {
		m := &list[i]
		switch m.Name {
		case "pids", "memory", "cpu_milli":
			if err != nil || len(f) != 5 {
				continue
			}
			v, scale, unit := f[0], int64(1), int64(1)
			switch m.Name {
			case "memory":
				v = f[1]
				m.Hit = m.Hit || f[4] == "true"
			case "cpu_milli":
				v, scale = f[2], 1000
				unit, _ = strconv.ParseInt(f[3], 10, 64)
			}
			if n, err := strconv.ParseInt(v, 10, 64); err == nil && n > 0 && unit > 0 {
				m.By, m.Value = c.engine.name, n*scale/unit
			}
		case "disk":
			m.By, m.Value = "tmpfs", l.Disk
		case "inodes":
			m.By, m.Value = "tmpfs", l.Inodes
		}
	}
	return list
}

// remove ends the container and everything in it.
func (c *container) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	for range 3 {
		if _, err := c.engine.output(ctx, "rm", "--force", "--volumes", c.id); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
