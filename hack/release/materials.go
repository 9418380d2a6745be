package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// materials writes what the programs are made of, as CycloneDX 1.6: each program
// with its digest, and the modules that Go noted in it.
func (r *release) materials(into string, built []binary) error {
	var (
		components   []cyclonedx.Component
		dependencies []cyclonedx.Dependency
		known        = map[string]bool{}
	)
	for _, b := range built {
		content, err := os.ReadFile(b.path)
		if err != nil {
			return err
		}
		ref := fmt.Sprintf("%s-%s", b.name, b.platform)
		components = append(components, cyclonedx.Component{
			BOMRef: ref, Type: cyclonedx.ComponentTypeApplication, Name: b.name, Version: r.version, Description: b.platform.String(),
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(content))}},
		})
		var of []string
		for _, module := range modules(b.info) {
			purl := "pkg:golang/" + module.Path + "@" + module.Version
			of = append(of, purl)
			if !known[purl] {
				known[purl] = true
				components = append(components, cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: purl})
			}
		}
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: ref, Dependencies: &of})
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.time.UTC().Format(time.RFC3339),
		Component: &cyclonedx.Component{BOMRef: "squall", Type: cyclonedx.ComponentTypeApplication, Name: "squall", Version: r.version},
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	f, err := os.Create(filepath.Join(into, "squall-"+r.version+".cdx.json"))
	if err != nil {
		return err
	}
	return errors.Join(cyclonedx.NewBOMEncoder(f, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6), f.Close())
}

// modules are those that a program is linked from, Go's own library among them. A
// module of this checkout keeps its name: its path means nothing elsewhere.
func modules(info *buildinfo.BuildInfo) []debug.Module {
	found := []debug.Module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, module := range info.Deps {
		if module.Replace != nil && module.Replace.Version != "" {
			module = module.Replace
		}
		found = append(found, *module)
	}
	slices.SortFunc(found, func(a, b debug.Module) int { return strings.Compare(a.Path, b.Path) })
	return found
}
