//go:build linux

package diskfailure

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// layout has the offsets of the fields that a program reads, each in bytes from the
// beginning of its structure. They differ from kernel to kernel.
type layout struct {
	fileMode, filePath, fileInode int16
	inodeSuper, superDevice       int16
	taskNamespaces                int16
	namespacesMount, mountNumber  int16
}

// kernelLayout reads the layout from this kernel, which describes its own types.
func kernelLayout(cache *btf.Cache) (layout, error) {
	types, err := cache.Kernel()
	if err != nil {
		return layout{}, fmt.Errorf("read the kernel's types (CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	var l layout
	for _, wanted := range []struct {
		into      *int16
		structure string
		members   []string // each inside the previous one
	}{
		{&l.fileMode, "file", []string{"f_mode"}},
		{&l.filePath, "file", []string{"f_path"}},
		{&l.fileInode, "file", []string{"f_inode"}},
		{&l.inodeSuper, "inode", []string{"i_sb"}},
		{&l.superDevice, "super_block", []string{"s_dev"}},
		{&l.taskNamespaces, "task_struct", []string{"nsproxy"}},
		{&l.namespacesMount, "nsproxy", []string{"mnt_ns"}},
		{&l.mountNumber, "mnt_namespace", []string{"ns", "inum"}},
	} {
		var structure *btf.Struct
		if err := types.TypeByName(wanted.structure, &structure); err != nil {
			return layout{}, fmt.Errorf("find the kernel's type %s: %w", wanted.structure, err)
		}
		members, at := structure.Members, uint32(0)
		for _, name := range wanted.members {
			member, offset, found := find(members, name)
			if !found {
				return layout{}, fmt.Errorf("the kernel's type %s has no %s", wanted.structure, name)
			}
			members, at = membersOf(member.Type), at+offset
		}
		*wanted.into = int16(at)
	}
	return l, nil
}

// find finds a member, also in members without a name.
func find(members []btf.Member, name string) (found btf.Member, at uint32, ok bool) {
	for _, member := range members {
		if member.Name == name {
			return member, member.Offset.Bytes(), true
		}
		if member.Name != "" {
			continue
		}
		if found, at, ok = find(membersOf(member.Type), name); ok {
			return found, at + member.Offset.Bytes(), true
		}
	}
	return btf.Member{}, 0, false
}

func membersOf(t btf.Type) []btf.Member {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		return t.Members
	case *btf.Union:
		return t.Members
	}
	return nil
}
