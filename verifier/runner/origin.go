package runner

import (
	"net/netip"
	"path/filepath"
	"strings"
)

// folder is the name of the folder that a user would call the repository.
func (r *Repository) folder() string {
	path := r.common
	if filepath.Base(path) == ".git" {
		path = filepath.Dir(path)
	} else if r.top != "" && r.common == r.gitDir {
		path = r.top
	}
	return strings.TrimSuffix(filepath.Base(path), ".git")
}

// repositoryName turns the URL of a remote into host and path, such as
// "example.org/team/project": without scheme, user, password, port, query and
// ".git", the host in lower case. Whatever names no other host, or would not
// print as one plain word, becomes "local/" and the folder's name.
func repositoryName(remote, folder string) string {
	if host, path, ok := splitRemote(remote); ok {
		path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
		name := strings.ToLower(host) + "/" + strings.Trim(path, "/")
		if path != "" && plain(name) {
			return name
		}
	}
	if name := "local/" + folder; plain(name) {
		return name
	}
	return "local/repository"
}

// splitRemote knows the two ways in which Git writes a remote on another
// host: a URL, and scp's user@host:path.
func splitRemote(remote string) (host, path string, ok bool) {
	scheme, rest, isURL := strings.Cut(remote, "://")
	if !isURL {
		authority, path, ok := strings.Cut(remote, ":")
		// A slash before the colon, or a single letter, is a path; a second
		// colon at once is a transport with its own syntax.
		if !ok || strings.Contains(authority, "/") || len(authority) < 2 || strings.HasPrefix(path, ":") {
			return "", "", false
		}
		host = authority[strings.LastIndexByte(authority, '@')+1:]
		return host, path, validHost(host)
	}
	switch strings.ToLower(strings.TrimPrefix(scheme, "git+")) {
	case "http", "https", "ssh", "git", "ftp", "ftps":
	default:
		return "", "", false
	}
	authority, path, _ := strings.Cut(rest, "/")
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	host = authority[strings.LastIndexByte(authority, '@')+1:]
	if end := strings.LastIndexByte(host, ']'); end >= 0 {
		host = host[:end+1] // an IPv6 address keeps its brackets
	} else {
		host, _, _ = strings.Cut(host, ":")
	}
	return host, path, validHost(host)
}

func validHost(host string) bool {
	if strings.HasPrefix(host, "[") {
		addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
		return err == nil && addr.Is6()
	}
	for i := range len(host) {
		c := host[i] | 0x20
		if (c < 'a' || c > 'z') && (host[i] < '0' || host[i] > '9') && strings.IndexByte("-._", host[i]) < 0 {
			return false
		}
	}
	return host != "" && host[0] != '-'
}

// plain reports whether a name is at most 255 printable ASCII characters
// without a space or "@".
func plain(name string) bool {
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' || name[i] == '@' {
			return false
		}
	}
	return len(name) <= 255
}
