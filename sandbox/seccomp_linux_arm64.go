package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

func archDenied() []uint32 { return []uint32{unix.SYS_KEXEC_FILE_LOAD} }
