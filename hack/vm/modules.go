package vm

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Modules are the files of a kernel's modules by name, below a directory.
func Modules(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if name, found := strings.CutSuffix(filepath.Base(path), ".ko"); found {
			files[moduleName(name)] = path
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no modules in %s", dir)
	}
	return files, err
}

// moduleName has one spelling of the two in use.
func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// InOrder returns the files of modules with all they need, what is needed first.
// A name without a file is built in, or fails where it is used.
func InOrder(wanted []string, files map[string]string) ([]string, error) {
	return inOrder(wanted, files, moduleNeeds)
}

func inOrder(wanted []string, files map[string]string, needs func(file string) ([]string, error)) ([]string, error) {
	var order []string
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		name = moduleName(name)
		file, there := files[name]
		if seen[name] || !there {
			return nil
		}
		seen[name] = true
		needed, err := needs(file)
		if err != nil {
			return fmt.Errorf("read what module %s needs: %w", name, err)
		}
		for _, other := range needed {
			if err := add(other); err != nil {
				return err
			}
		}
		order = append(order, file)
		return nil
	}
	for _, name := range wanted {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// moduleNeeds reads the names of the modules that a module depends on. Not every
// kernel package has a list of them.
func moduleNeeds(file string) ([]string, error) {
	module, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer module.Close()
	section := module.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("%s has no section .modinfo", file)
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	return needsOf(info), nil
}

// needsOf reads the lines depends and softdep of a section .modinfo. Soft
// dependencies matter too: without crc32c_generic, which nothing depends on,
// nf_tables cannot be loaded.
func needsOf(info []byte) []string {
	var needs []string
	for line := range bytes.SplitSeq(info, []byte{0}) {
		name, value, _ := strings.Cut(string(line), "=")
		switch name {
		case "depends":
			needs = append(needs, strings.FieldsFunc(value, func(r rune) bool { return r == ',' })...)
		case "softdep":
			before, _, _ := strings.Cut(value, "post:")
			if _, names, found := strings.Cut(before, "pre:"); found {
				needs = append(needs, strings.Fields(names)...)
			}
		}
	}
	return slices.Compact(needs)
}

// NetworkModules are queueing disciplines, filters and devices that network
// disruptions and their tests make.
func NetworkModules() []string {
	return []string{
		"sch_netem", "sch_prio", "sch_htb", "sch_tbf", "sch_fq", "sch_ingress", "cls_bpf", "cls_u32", "cls_flower", "cls_matchall",
		"act_gact", "act_mirred", "act_police", "veth", "ifb", "dummy", "ipv6",
	}
}

// FilterModules are for what is redirected or held by nftables. The first is what
// libcrc32c asks for by another name.
func FilterModules() []string {
	return []string{
		"crc32c_generic", "nf_tables", "nft_chain_nat", "nft_nat", "nft_redir", "nft_numgen", "nft_limit", "nft_ct", "nft_reject_inet", "nft_compat", "nft_queue",
		"nfnetlink_queue", "nf_conntrack_netlink", "xt_bpf", "xt_NFQUEUE", "xt_tcpudp", "xt_conntrack",
	}
}
