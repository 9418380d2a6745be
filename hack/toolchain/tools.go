// Package toolchain builds the programs of the development cluster from the Go
// modules that pin them, once for each user: the result lies in the cache under
// a key made of everything that it was made from.
package toolchain

import (
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/hack/debian"
)

// Tool is a set of programs that is built together.
type Tool struct {
	Name    string
	Dir     string        // its module, below the hack directory
	Module  string        // whose version is the tool's; empty: the sources' alone
	Sources []string      // directories with own sources, below the hack directory
	Needs   []debian.Need // of the machine, beside go
	Builds  func(version string) []Build
	Images  []Image // made from the programs after the build
}

// Build is one run of go build.
type Build struct {
	Output   string // file name; empty: each package's own name
	Packages []string
	Tags     string
	LDFlags  string // beside -s -w
	// Names are the programs in Output, which looks at the name by which it is
	// started: a hard link for each.
	Names []string
	CGO   bool
}

// Image is an archive to be made from a program, by its name without ".tar".
type Image struct{ Name, Program string }

// Tools lists all tools in the order in which they are built.
func Tools() []Tool {
	return []Tool{
		{Name: "kubernetes", Dir: "tools/kubernetes", Module: "k8s.io/kubernetes", Sources: []string{"tools/kubernetes"}, Builds: kubernetes},
		{Name: "containerd", Dir: "tools/containerd", Module: "github.com/containerd/containerd/v2", Builds: containerd},
		{Name: "runc", Dir: "tools/runc", Module: "github.com/opencontainers/runc", Builds: runc, Needs: debian.ForCompiler},
		{Name: "cni", Dir: "tools/cni", Module: "github.com/containernetworking/plugins", Builds: cni},
		{Name: "temporal", Dir: "temporal", Module: "go.temporal.io/server", Sources: []string{"temporal"}, Builds: own("temporal")},
		{Name: "coredns", Dir: "tools/coredns", Module: "github.com/coredns/coredns", Sources: []string{"tools/coredns"},
			Builds: own("coredns"), Images: []Image{{"coredns", "coredns"}}},
		{Name: "images", Dir: ".", Sources: []string{"images/pause", "images/target", "archive"}, Builds: workloads,
			Images: []Image{{"pause", "pause"}, {"target", "target"}}},
	}
}

// kubernetes builds what runs on machines as one program. kubectl is apart: it is
// started hundreds of times by tests and scripts, and needs none of the rest.
func kubernetes(version string) []Build {
	minor := strings.Split(version, ".")[1]
	var flags []string
	for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags, fmt.Sprintf("-X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=%s -X %s.gitTreeState=archive "+
			"-X %s.buildDate=2026-01-01T00:00:00Z", p, version, p, p, minor, p, p))
	}
	return []Build{
		{Output: "etcd", Packages: []string{"go.etcd.io/etcd/server/v3"}},
		{
			Output: "kubernetes", Packages: []string{"."}, LDFlags: strings.Join(flags, " "),
			Names: []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"},
		},
		{Output: "kubectl", Packages: []string{"k8s.io/kubernetes/cmd/kubectl"}, LDFlags: strings.Join(flags, " ")},
	}
}

func containerd(version string) []Build {
	const module = "github.com/containerd/containerd/v2"
	return []Build{{
		Packages: []string{module + "/cmd/containerd", module + "/cmd/containerd-shim-runc-v2", module + "/cmd/ctr"},
		Tags:     "no_btrfs no_devmapper no_zfs",
		LDFlags:  "-X " + module + "/version.Version=" + version,
	}}
}

// runc needs C, because a namespace must be entered before Go's runtime starts.
func runc(version string) []Build {
	return []Build{{
		Output:   "runc",
		Packages: []string{"github.com/opencontainers/runc"},
		Tags:     "seccomp",
		LDFlags:  "-X main.version=" + strings.TrimPrefix(version, "v"),
		CGO:      true,
	}}
}

func cni(string) []Build {
	const plugins = "github.com/containernetworking/plugins/plugins/"
	return []Build{{Packages: []string{
		plugins + "main/bridge", plugins + "main/loopback", plugins + "ipam/host-local", plugins + "meta/portmap"}}}
}

func workloads(string) []Build {
	return []Build{{Packages: []string{"./images/pause", "./images/target"}}}
}

// own is the program in the module's first directory.
func own(name string) func(string) []Build {
	return func(string) []Build { return []Build{{Output: name, Packages: []string{"."}}} }
}
