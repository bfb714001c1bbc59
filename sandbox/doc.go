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
//	restricted   uid not 0, all five capability sets empty and no_new_privs on
//	             every thread, a system call filter, and out of reach: the
//	             caller's files, environment and processes, /usr for writing,
//	             mount, new user namespaces, keyrings, foreign descriptors
//	container    reserved: walls made by an engine
//	namespaces   also: own pid, mnt, net, ipc and uts namespaces, a read-only
//	             root, no route out, and the caller's TCP, UDP, abstract and
//	             path sockets out of reach
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
// Unless the Spec says otherwise, rootdrop is tried, then userns. The modes
// that were refused are in Isolation.Fallbacks.
//
//   - rootdrop needs root. Namespaces and mounts are made as root, then an
//     unused uid is taken and everything else given up.
//   - userns needs nothing but a kernel that allows user namespaces and mounts
//     in them. Called by a user, the command is that user on the host; called
//     by root, it is an unused uid. It is never uid 0, inside or outside, and
//     uid 0 is not mapped.
//   - none has no walls and runs only if it is asked for by name: own session,
//     exactly the given environment, no core files, all descendants killed at
//     the end. It mounts nothing; a Mount whose Source is its Target, read-only
//     or writable, is accepted and not enforced. Its level is none.
//
// Whose a tree must be for the command to change it, [Owner] says.
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
// Processes of the sandbox are uid 61000 to 61183, or the user that called.
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
// # Order of setup
//
//	supervisor  plants canaries, makes cgroups, clones into new namespaces
//	setup       every descriptor close-on-exec; not dumpable; sources of all
//	            mounts opened before anything is covered; mounts; host name;
//	            loopback; pivot_root; rlimits; bounding set, groups, uid,
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
// BUG: mode rootdrop does not use sudo by itself: the caller must be root.
//
// BUG: with version 1 cgroups the command sees the name of its own group.
package sandbox
