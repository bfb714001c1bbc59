//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"io"
)

// limits reports every bound with its enforcer, read back.
func (a *attempt) limits(end *endReport) {
	r, l := &a.result, a.spec.Limits
	pids, memory, cpu := a.cgroup.limits()
	if pids.By == "none" && a.usage.Pids > 0 {
		pids.By, pids.Value = "rlimit", a.usage.Pids
	}
	if memory.By == "none" {
		memory.By, memory.Value = "polled", l.Memory
		memory.Peak, memory.Hit = a.polled.peak()
	} else {
		r.PeakMemory = max(r.PeakMemory, memory.Peak)
	}
	if memory.Hit && r.State == StateSignaled && r.Why == "" {
		r.Why = "over the memory limit"
	}
	disk, inodes := Limit{Name: "disk", By: "none"}, Limit{Name: "inodes", By: "none"}
	if !a.result.Isolation.Mode.loose() {
		disk.By, disk.Value = "tmpfs", a.usage.Disk
		inodes.By, inodes.Value = "tmpfs", a.usage.Inodes
		if end != nil {
			disk.Peak, disk.Hit = end.DiskUsed, end.DiskUsed >= a.usage.Disk
			inodes.Peak, inodes.Hit = end.InodesUsed, end.InodesUsed >= a.usage.Inodes
		}
	}
	var fileBytes int64
	for _, f := range r.Files {
		fileBytes += f.Size
	}
	r.Isolation.Limits = []Limit{
		{Name: "wall_ms", By: "supervisor", Value: l.Wall.Milliseconds(), Peak: r.End.Sub(r.Start).Milliseconds(), Hit: r.State == StateTimeout},
		pids, memory, cpu, disk, inodes,
		{Name: "stdout", By: "supervisor", Value: l.Output, Peak: r.Stdout.Total, Hit: r.Stdout.Total > l.Output},
		{Name: "stderr", By: "supervisor", Value: l.Output, Peak: r.Stderr.Total, Hit: r.Stderr.Total > l.Output},
		{Name: "file_bytes", By: "supervisor", Value: l.FileBytes, Peak: fileBytes},
	}
	if a.usage.Shared > 0 {
		r.Isolation.Limits = append(r.Isolation.Limits, Limit{Name: "shared", By: "ipcns", Value: a.usage.Shared})
	}
}

// copyBounded reads r to its end and writes the first limit bytes to w.
func copyBounded(w io.Writer, r io.Reader, limit int64) Stream {
	var s Stream
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		s.Total += int64(n)
		if keep := min(int64(n), limit-s.Kept); keep > 0 && w != nil {
			m, werr := w.Write(buf[:keep])
			s.Kept += int64(max(m, 0))
			if werr != nil {
				w = nil
			}
		}
		if err != nil {
			return s
		}
	}
}

// A firstLine passes output on to w, and keeps the beginning of its first line.
type firstLine struct {
	w    io.Writer
	line []byte
	full bool
}

const maxFirstLine = 200

func (f *firstLine) Write(p []byte) (int, error) {
	if !f.full {
		line, _, end := bytes.Cut(p, []byte("\n"))
		f.line = append(f.line, line[:min(len(line), maxFirstLine-len(f.line))]...)
		f.full = end || len(f.line) == maxFirstLine
	}
	if f.w == nil {
		return 0, io.ErrClosedPipe
	}
	return f.w.Write(p)
}
