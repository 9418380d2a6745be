package v1beta1

import (
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DiskFailure makes the opening of files below some paths fail.
type DiskFailure struct {
	// Paths are absolute path prefixes, at most 62 characters each. Required. At
	// node level "/" needs spec.unsafeMode.allowRootDiskFailure, and ".." is refused.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.all(p, p.trim().size() > 0 && p.trim().size() <= 62)",message="a path has 1 to 62 characters, spaces around it not counted",messageExpression="'\"' + self.filter(p, p.trim().size() == 0 || p.trim().size() > 62)[0] + '\": a path has 1 to 62 characters, spaces around it not counted'"
	// +kubebuilder:validation:XValidation:rule="self.all(p, p.trim() == '' || p.trim().startsWith('/'))",message="want absolute paths, such as /data",messageExpression="'\"' + self.filter(p, p.trim() != '' && !p.trim().startsWith('/'))[0] + '\": want an absolute path, such as /data'"
	// +listType=atomic
	Paths []string `json:"paths"`
	// OpenatSyscall is the error that the caller of open gets. Nothing means ENOENT.
	//
	// +nullable
	OpenatSyscall *OpenatSyscall `json:"openat,omitempty"`
	// Probability is the share of openings that fail, "1%" to "100%", or a
	// number. Nothing means 100%.
	//
	// +nullable
	Probability *Percentage `json:"probability,omitempty"`
}

// OpenatSyscall is the failure of the system call openat.
type OpenatSyscall struct {
	// ExitCode is the name of the error the caller sees. Default ENOENT.
	//
	// +kubebuilder:validation:Enum=EACCES;EDQUOT;EEXIST;EFAULT;EFBIG;EINTR;EISDIR;ELOOP;EMFILE;ENAMETOOLONG;ENFILE;ENODEV;ENOENT;ENOMEM;ENOSPC;ENOTDIR;ENXIO;EOVERFLOW;EPERM;EROFS;ETXTBSY;EWOULDBLOCK
	ExitCode string `json:"exitCode"`
}

var (
	openatErrors = strings.Fields(`EACCES EDQUOT EEXIST EFAULT EFBIG EINTR EISDIR ELOOP EMFILE ENAMETOOLONG ENFILE
		ENODEV ENOENT ENOMEM ENOSPC ENOTDIR ENXIO EOVERFLOW EPERM EROFS ETXTBSY EWOULDBLOCK`)
)

func (f *DiskFailure) validate(path *field.Path) field.ErrorList {
	errs := items(path.Child("paths"), len(f.Paths), 1, 64)
	for i, prefix := range f.Paths {
		if n := utf8.RuneCountInString(strings.TrimSpace(prefix)); n < 1 || n > 62 {
			errs = append(errs, field.Invalid(path.Child("paths").Index(i), prefix,
				"a path has 1 to 62 characters, spaces around it not counted"))
		}
		if text := strings.TrimSpace(prefix); text != "" && !strings.HasPrefix(text, "/") {
			errs = append(errs, field.Invalid(path.Child("paths").Index(i), prefix, "want an absolute path, such as /data"))
		}
	}
	if f.OpenatSyscall != nil {
		errs = append(errs, oneOf(path.Child("openat", "exitCode"), f.OpenatSyscall.ExitCode, openatErrors...)...)
	}
	if !f.Probability.Given() {
		return errs
	}
	return append(errs, f.Probability.validate(path.Child("probability"))...)
}
