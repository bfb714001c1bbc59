// Package sandbox runs one command with less authority: a [Spec] in, a
// [Result] out. It knows nothing about tests, receipts or Git. The key holder
// process, whose point is that tested code never meets it, is here too (see
// [Signer]).
//
// The walls are made by Linux itself (amd64 and arm64) through this program,
// executed again; there is no helper program. A program that uses the package
// calls [Child] first thing in main.
//
// # Levels
//
// A [Level] is a measurement. Before the command starts, process 1 of the
// sandbox makes a list of attempts on the very thread that will start it, and
// the supervisor reads the kernel's account of that process from outside.
// [Result].Isolation has every attempt with the errno it ended in.
//
//	none         nothing below was found to hold
//	restricted   uid not 0, no capability held or to be had and no_new_privs on
//	             every thread, a system call filter, and out of reach: the
//	             caller's files, environment and processes, / and /usr for
//	             writing, mount, new user namespaces, keyrings, vsock, foreign
//	             descriptors
//	container    as namespaces, but an engine made the walls: its daemon is
//	             trusted, too
//	namespaces   also: own pid, mnt, net, ipc and uts namespaces, all five
//	             capability sets empty, no route out, and the caller's TCP,
//	             UDP, abstract and path sockets out of reach
//	kernel       reserved: another kernel answers
//
// A failed attempt proves little by itself, so the supervisor plants what is
// tried for (a file, TCP, UDP, abstract and path sockets; the process and its
// environment are the supervisor's own) and reaches each of them before. If
// it cannot, there is no Result. It also checks that nothing arrived from
// inside.
//
// The level does not depend on the mode asked for, and falls by itself when a
// layer is missing. Below [Spec].MinLevel the command does not start, and Run
// returns a [*RefusedError] that says for each mode what was tried, what the
// kernel answered and what would change that.
//
// # Modes
//
// Unless the Spec says otherwise, those of [DefaultModes] are tried. The modes
// that were refused are in Isolation.Fallbacks.
//
//   - rootdrop needs root. Namespaces and mounts are made as root, then an
//     unused uid is taken and everything else given up. An ordinary user gets
//     there by `sudo -n`, if that asks for no password: this program runs
//     there once more, is told the Spec on its standard input and reports on
//     its standard output (Isolation.Via is sudo). The user's files appear as
//     the command's own through id-mapped mounts, which the file system must
//     support.
//   - userns needs nothing but a kernel that allows user namespaces and mounts
//     in them. Called by a user, the command is that user on the host; called
//     by root, it is an unused uid. It is never uid 0, inside or outside, and
//     uid 0 is not mapped.
//   - container has docker or podman make a container of Spec.Image: no network
//     but loopback, read-only root, no capabilities, limits on processes and
//     memory, no directory of the host and no socket. This program, which must
//     be linked statically, is its first process. Mounts are sent in, and what
//     became of a Writable one is sent back. All that mode restricted does is
//     done inside. Isolation names engine, version and image (config digest
//     and, where one exists, repository digest). It needs nothing of the
//     command's toolchain on the host and all of it in the image.
//   - restricted is for hosts that allow no namespaces, as the inside of a
//     container. Landlock, the filter and no_new_privs do what they can; for
//     root, the command is a uid that nobody else has. Internet sockets do not
//     exist, not even to loopback, unless the network is the host's.
//   - none has no walls and runs only if it is asked for by name: own session,
//     exactly the given environment, no core files, all descendants killed at
//     the end. Its level is none.
//
// Whose a tree must be for the command to change it, [Owner] says.
//
// # Moved paths
//
// Modes restricted and none cannot mount. What the Spec puts at a target lies
// elsewhere: a copy of an Overlay's source, an empty directory for Scratch, the
// source itself for ReadOnly and Writable (a copy, if the command's uid could
// not reach it; what became of a Writable one goes back). So it is with /tmp,
// /var/tmp and /home/sandbox. In Argv, Dir, Collect and the values of Env, a
// target is replaced by where it really is, wherever it stands as a path: at the
// start or after one of space : = , ; " ' or file://, up to the end or one of
// these or a slash. Isolation.Root is then "moved". The directory goes when the
// last process is dead.
//
// The copies and empty directories lie in one directory as their targets lie in
// the root, and the sources themselves are linked there. So a relative path, in a
// file too, leads from an Overlay or a Scratch to the other mounts (from /src,
// ../deps is what is mounted at /deps), but not from a ReadOnly or Writable one
// to them, nor to what is not mounted.
//
// # Inside
//
// The root is a small read-only tmpfs. It holds
//
//   - /usr, /bin, /sbin, /lib* and /nix/store of the host, read-only
//   - /etc made up: passwd, group, hosts, hostname, nsswitch.conf, an empty
//     resolv.conf; and of the host's, read-only, what programs need to start
//     and to check certificates: alternatives, ld.so.*, ssl, protocols,
//     services. With [NetworkHost] also its hosts, resolv.conf and CA files
//   - /proc of the own pid namespace
//   - /dev with null, zero, full, random, urandom, the fd links, shm and an own
//     pts; no tty
//   - /tmp, /var/tmp, /dev/shm and /home/sandbox: writable, executable,
//     empty, in memory
//   - an empty /run; no /sys
//   - the Mounts of the Spec
//
// All mounts are nosuid, and nodev except the five devices. The host name is
// sandbox, the umask 022. Standard input is /dev/null, output goes through
// pipes, descriptors above 2 do not exist, the command leads its own session.
// Processes of the sandbox are uid 60578 to 61183, or the user that called. In
// mode restricted, the host's /usr, /bin, /sbin, /lib*, /nix/store, /proc and
// some files of /etc can be read, and nothing can be changed but the moved
// places, five devices, ptys and, for a uid of its own, /dev/shm.
//
// # System calls
//
// The filter checks the architecture first: 32-bit and x32 system calls get
// ENOSYS, and so do clone3 and numbers newer than the filter. Not permitted
// (EPERM) are keyrings, bpf, perf events, userfaultfd, io_uring, fanotify, file
// handles, everything that mounts or makes or joins namespaces, kernel modules,
// kexec, the clock, swap, quota, TIOCSTI and TIOCLINUX. Sockets other than UNIX,
// INET, INET6 and NETLINK get EAFNOSUPPORT. The rest is allowed: ptrace of own
// children, personality, ptys, signals, namespaced sysctls by the usual rules.
//
// What nested sandboxes begin with (clone and unshare with namespace flags,
// setns, mount, pivot_root, chroot) is refused by process 1, to which the filter
// refers these calls, and counted in [Result].Denied. Where the kernel allows no
// listener, or another filter answers first, the filter refuses them itself;
// Isolation.Counted says which. The errno is the same.
//
// Landlock, from ABI 2 on, says the same about files as the mounts do, and from
// ABI 6 on keeps signals and abstract sockets inside. Isolation.Landlock is the
// ABI whose rights were applied: 0 means that this layer was absent.
//
// # Ports of the host
//
// Spec.Connect names TCP ports of the host's loopback that the command is to
// reach, such as a database's. The setup stage makes a listening socket with the
// same address in the new network namespace, hands it to the supervisor and
// keeps nothing. When the command starts, the supervisor begins to accept there,
// dials the host's address for each connection and copies both ways; the end of
// one way is passed on as such. No process and no descriptor of this is inside,
// and there is still no route out.
//
// 256 connections at once are relayed; more wait. Where nobody listens on the
// host, the command's connection is made and then reset. When its last process
// is dead, what the command wrote is passed on for at most two seconds, then
// everything is closed. The service sees a client of the host's loopback: the
// supervisor, which through sudo is root. The command cannot listen on a port
// that is relayed. What the service does for the command, it does outside: a
// level says nothing of it.
//
// The modes rootdrop and userns can do this. The others are refused for it and
// the next is tried. Isolation.Connect has what was relayed; the level is
// measured as without.
//
// # Order of setup
//
//	supervisor  plants canaries, makes cgroups, clones into new namespaces
//	setup       every descriptor close-on-exec; not dumpable; sources of all
//	            mounts opened before anything is covered; mounts; host name;
//	            loopback; sockets for the ports of the host, sent to the
//	            supervisor; pivot_root; rlimits; bounding set, groups, uid,
//	            capabilities and no_new_privs, in this order; then it executes
//	init        which has none of setup's threads and pages left: not
//	            dumpable, own session keyring, all threads that it will need;
//	            on one thread that serves nothing else: Landlock, filter,
//	            probes
//	supervisor  observes from outside, computes the level, says go or kills
//	init        starts the command from that thread and reaps. When the
//	            command's first process has ended, kills all others, then
//	            reads the files to collect, with no rights but the command's
//
// Process 1 lies outside the Landlock domain, is not dumpable and handles every
// signal, so the command can neither trace nor end it. Every stage dies with
// the supervisor's thread, and the pid namespace with process 1: killing the
// supervisor at any point leaves no process and no mount. It can leave an empty
// cgroup or, for the milliseconds of the probes, a directory of canaries; the
// next Run removes those whose owner is dead.
//
// # Limits
//
// Zero fields of [Limits] mean the values of [DefaultLimits]: 10 minutes, 4096
// processes, 8 GiB of memory, 64 MiB per output stream, 4 GiB and 1,048,576
// files on disk, 1024 collected files with 256 MiB together. Isolation.Limits
// says for each who enforced it, the value read back from there, the peak if
// known, and whether it was hit.
//
//	wall      the supervisor kills process 1 through its pidfd
//	pids      cgroup 2 or 1, else RLIMIT_NPROC on the sandbox's uid. Process
//	          1 has about twelve threads, which count; it makes all of them
//	          before the command starts, so that it needs none when the
//	          command has used up the rest
//	memory    cgroup 2 or 1, else the supervisor looks every 100 ms and kills
//	          (polled): resident sets, memfds and deleted files of a tmpfs
//	          that are held open, System V shared memory of the own namespace.
//	          Never RLIMIT_AS, which Go and Java do not survive
//	shared    System V shared memory, by the own ipc namespace, if it was made
//	          by root: as much as memory
//	cpu       a share of the processors, if one is asked for: cgroup 2 or 1
//	disk      the size and inode count of the one tmpfs behind all writable
//	          places; pages there count as memory where a cgroup counts.
//	          Writable mounts are not limited
//	output    pipes, read to the end: past the limit bytes are counted and
//	          dropped, and the command does not notice
//	collect   one budget for the number of files, one for their bytes
//
// # What a level is not
//
// A command can always lie about itself: exit 0, print that all is well. A
// level says what it could reach, not that it was honest. The report is worth
// as much as the supervisor and the root of its host. The kernel is shared, and
// a hole in it is a hole here.
//
// BUG: where Isolation.Counted, a command cannot be a listener for system calls
// itself: seccomp with SECCOMP_FILTER_FLAG_NEW_LISTENER is EBUSY.
//
// BUG: 32-bit programs do not run: their system calls get ENOSYS.
//
// BUG: in mode userns, renaming a directory of an Overlay's source is EXDEV,
// and supplementary groups of the calling user stay in force.
//
// BUG: in mode restricted, path sockets of the host that the uid may write to can
// be reached (Landlock knows no rule for them before ABI 9), and disk is not
// limited. For an ordinary user, neither are processes, /dev/shm is not there, and
// nothing but a Landlock ABI of 6 or more keeps signals inside: with less, the
// level is none.
//
// BUG: POSIX message queues are not there: Landlock allows no file without a path.
//
// BUG: in mode container, a ReadOnly Mount of one file hides what the image has in
// its directory, and a ReadOnly Mount within a writable place can be changed.
//
// BUG: with version 1 cgroups the command sees the name of its own group.
package sandbox
