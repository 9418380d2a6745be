package oninit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func testSettings() Settings {
	return Settings{Enabled: true, Port: 9443, Timeout: time.Minute, MaxTimeout: time.Hour, Image: "squall:test"}
}

// labelled is a pod with the label and one container.
func labelled(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
	pod.Labels = map[string]string{v1beta1.LabelDisruptOnInit: v1beta1.OnInitValue}
	if change != nil {
		change(pod)
	}
	return pod
}

func TestPatch(t *testing.T) {
	ours := container(testSettings(), time.Minute)
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		want   []string // operations and paths
		notice string
	}{
		{"a pod without the label", func(p *corev1.Pod) { p.Labels = nil }, nil, ""},
		{"a label with another value", func(p *corev1.Pod) { p.Labels[v1beta1.LabelDisruptOnInit] = "false" }, nil, ""},
		{"a pod with nothing in its lists", nil, []string{"add /spec/volumes", "add /spec/initContainers"}, ""},
		{"a pod with others in its lists", func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Volumes = []corev1.Container{{Name: "migrate"}}, []corev1.Volume{{Name: "data"}}
		}, []string{"add /spec/volumes/0", "add /spec/initContainers/0"}, ""},
		{"one that waits already", func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Volumes = []corev1.Container{ours}, []corev1.Volume{{Name: emptyVolume}}
			p.Spec.InitContainers[0].TerminationMessagePath = "/dev/termination-log"
		}, nil, ""},
		{"one before which somebody put another", func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Volumes = []corev1.Container{{Name: "mesh"}, ours}, []corev1.Volume{{Name: emptyVolume}}
		}, []string{"remove /spec/initContainers/1", "add /spec/initContainers/0"}, ""},
		{"one whose container of our name is another", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: v1beta1.OnInitContainer, Image: "theirs"}}
		}, []string{"add /spec/volumes", "remove /spec/initContainers/0", "add /spec/initContainers/0"}, ""},
		{"one in its node's network", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, nil, "hostNetwork"},
		{"one for Windows", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, nil, "Linux alone"},
		{"a static pod", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, nil, "static pod"},
	} {
		t.Run(test.name, func(t *testing.T) {
			operations, notice, err := patch(labelled(test.change), testSettings())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range operations {
				got = append(got, o.Op+" "+o.Path)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if (test.notice == "") != (notice == "") || !strings.Contains(notice, test.notice) {
				t.Errorf("notice = %q, want %q in it", notice, test.notice)
			}
		})
	}
}

func TestTimeoutOfAPod(t *testing.T) {
	for text, want := range map[string]string{
		"": "1m0s", "30s": "30s", "1h": "1h0m0s", "1s": "1s",
		"61m": "error", "0s": "error", "-5s": "error", "5": "error", "soon": "error", "999ms": "error",
	} {
		pod := labelled(func(p *corev1.Pod) {
			if text != "" {
				p.Annotations = map[string]string{v1beta1.AnnotationOnInitTimeout: text}
			}
		})
		operations, _, err := patch(pod, testSettings())
		if want == "error" {
			if err == nil || !strings.Contains(err.Error(), v1beta1.AnnotationOnInitTimeout) || !strings.Contains(err.Error(), "1h0m0s") || len(operations) > 0 {
				t.Errorf("patch with %q = %v, %v; want the annotation, and what is allowed", text, operations, err)
			}
			continue
		}
		made, _ := json.Marshal(operations)
		if err != nil || !strings.Contains(string(made), `"--timeout","`+want+`"`) {
			t.Errorf("patch with %q = %s, %v; want a wait of %s", text, made, err, want)
		}
	}
}

func TestCheckOfSettings(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"":                    func(*Settings) {},
		"injector-image is":   func(s *Settings) { s.Image = "" },
		"on-init-timeout":     func(s *Settings) { s.Timeout = 2 * time.Hour },
		"on-init-max-timeout": func(s *Settings) { s.MaxTimeout = time.Second },
		"image-pull-policy":   func(s *Settings) { s.ImagePullPolicy = "Sometimes" },
	} {
		s := testSettings()
		change(&s)
		err := s.Check()
		if (name == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("Check = %v, want %q named", err, name)
		}
		s.Enabled = false
		if err := s.Check(); err != nil {
			t.Errorf("Check while it is off = %v", err)
		}
	}
}
