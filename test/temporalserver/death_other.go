//go:build !linux

package temporalserver

import "syscall"

func diesWithParent() *syscall.SysProcAttr { return nil }
