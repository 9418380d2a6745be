package chaospod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// injectorIs is a chaos pod in a phase with its injector in a state.
func injectorIs(phase corev1.PodPhase, state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "chaos-1"},
		Status: corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "injector", State: state},
		}},
	}
}

// ran is pod with a container that the kubelet once had.
func ran(pod *corev1.Pod) *corev1.Pod {
	pod.Status.ContainerStatuses[0].ContainerID = "containerd://1"
	return pod
}

// goingWith is a pod that was deleted and has that grace period, in seconds.
func goingWith(grace int64, pod *corev1.Pod) *corev1.Pod {
	now := metav1.Now()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	return pod
}

func exited(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
}

func TestJudge(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	none := corev1.ContainerState{}
	report := `{"injected":true,"cleaned":false,"error":"remove filter on eth0: busy","left":["filter eth0 1:"]}`
	for _, test := range []struct {
		name      string
		pod       *corev1.Pod
		cleanable bool
		want      Outcome
		why       string
	}{
		{"completed: clean", injectorIs(corev1.PodSucceeded, exited(0, "Completed", "")), true, Clean, ""},                                        // rule 41
		{"exit 0 in a pod that is still called Running: clean", injectorIs(corev1.PodRunning, exited(0, "Completed", "")), true, Clean, ""},       // rule 41
		{"pending, image cannot be pulled, dropped by the kubelet: clean", goingWith(0, injectorIs(corev1.PodPending, waiting)), true, Clean, ""}, // rule 42
		{"pending, dropped by a kubelet that said nothing: clean", goingWith(0, injectorIs(corev1.PodPending, none)), true, Clean, ""},
		{"pending and about to go, it may be starting: wait", goingWith(60, injectorIs(corev1.PodPending, none)), true, Waiting, "not confirmed"},                                                  // rules 42, 47
		{"pending, being created and about to go: wait", goingWith(60, injectorIs(corev1.PodPending, waiting)), false, Waiting, "not confirmed"},                                                   // rule 42
		{"pending, but the injector runs already: wait", injectorIs(corev1.PodPending, running), true, Waiting, "still running"},                                                                   // rules 42, 47
		{"evicted after exit 0: the exit code counts first", injectorIs(corev1.PodFailed, exited(0, "Completed", "")), true, Clean, ""},                                                            // rule 43
		{"failed before anything ran: clean", injectorIs(corev1.PodFailed, waiting), true, Clean, ""},                                                                                              // rule 43
		{"failed and never seen by a kubelet: clean", injectorIs(corev1.PodFailed, none), true, Clean, ""},                                                                                         // rule 43
		{"the process was never executed: clean", injectorIs(corev1.PodFailed, exited(128, "StartError", "")), true, Clean, ""},                                                                    // rule 43
		{"the runtime could not run the container: clean", injectorIs(corev1.PodFailed, exited(128, "ContainerCannotRun", "")), true, Clean, ""},                                                   // rule 43
		{"failed by the node controller, last seen running: failed", injectorIs(corev1.PodFailed, running), true, Failed, "exit code is unknown"},                                                  // rules 43, 44
		{"failed by the node controller, last seen running, target gone: clean", injectorIs(corev1.PodFailed, running), false, Clean, ""},                                                          // rules 38, 39, 40
		{"never created, as its image is missing: clean", injectorIs(corev1.PodFailed, exited(137, "ContainerStatusUnknown", "")), true, Clean, ""},                                                // rule 42
		{"evicted with an unknown exit after running: failed", ran(injectorIs(corev1.PodFailed, exited(137, "ContainerStatusUnknown", ""))), true, Failed, "137"},                                  // rule 43
		{"killed with SIGKILL: failed, whatever `started` says", injectorIs(corev1.PodFailed, exited(137, "Error", "")), true, Failed, "exited with code 137"},                                     // rule 44
		{"failed and cleanable: kept, with the injector's own words", injectorIs(corev1.PodFailed, exited(1, "Error", report)), true, Failed, "remove filter on eth0: busy; left: filter eth0 1:"}, // rule 44
		{"failed and the target gone: clean", injectorIs(corev1.PodFailed, exited(1, "Error", report)), false, Clean, ""},                                                                          // rules 38, 39, 40
		{"refused before anything was changed: clean", injectorIs(corev1.PodFailed, exited(2, "Error", `{"cleaned":true,"error":"unknown kind"}`)), true, Clean, ""},
		{"still running: wait", injectorIs(corev1.PodRunning, running), true, Waiting, "still running"},                                                // rule 47
		{"still running and the target gone: wait, the signal is on its way", injectorIs(corev1.PodRunning, running), false, Waiting, "still running"}, // rules 40, 47
		{"running, container state unknown: wait", injectorIs(corev1.PodRunning, none), true, Waiting, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, why := Judge(test.pod, test.cleanable)
			if got != test.want || !strings.Contains(why, test.why) {
				t.Errorf("Judge() = %s %q, want %s with %q", got, why, test.want, test.why)
			}
		})
	}
}

func TestRejection(t *testing.T) {
	pod := func(reason, message string, state corev1.ContainerState) *corev1.Pod {
		p := injectorIs(corev1.PodFailed, state)
		p.Name, p.Spec.NodeName, p.Status.Reason, p.Status.Message = "chaos-1", "node-0", reason, message
		return p
	}
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"a full node", pod("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu", corev1.ContainerState{}),
			"the kubelet of node node-0 rejected pod chaos-1: OutOfcpu: Node didn't have enough resource: cpu"},
		{"another reason", pod("UnexpectedAdmissionError", "Pod was rejected: no device", corev1.ContainerState{}),
			"the kubelet of node node-0 rejected pod chaos-1: UnexpectedAdmissionError: no device"},
		{"without a message", pod("OutOfpods", "", corev1.ContainerState{}), "the kubelet of node node-0 rejected pod chaos-1: OutOfpods"},
		{"evicted", pod("Evicted", "The node was low on resource: memory.", corev1.ContainerState{}), ""},
		{"it ended", pod("OutOfcpu", "", exited(0, "Completed", "")), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Rejection(test.pod); got != test.want {
				t.Errorf("Rejection() = %q, want %q", got, test.want)
			}
			if got := NoRoom(test.pod); (got != "") != (test.want != "") || !strings.HasSuffix(got, test.want) {
				t.Errorf("NoRoom() = %q, want %q at its end", got, test.want)
			}
		})
	}
}

// A node is searched unless the end of its chaos pod proves that nothing is left.
func TestAudited(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"the injector searched its node", injectorIs(corev1.PodSucceeded, exited(0, "Completed", `{"cleaned":true,"audited":true}`)), true},
		{"the injector ended well and searched nothing", injectorIs(corev1.PodSucceeded, exited(0, "Completed", `{"cleaned":true}`)), false},
		{"nothing ever ran", injectorIs(corev1.PodFailed, corev1.ContainerState{}), true},
		{"the runtime could not run the container", injectorIs(corev1.PodFailed, exited(128, "ContainerCannotRun", "")), true},
		// A kubelet that restarts may reject a pod that ran, and drops what it had reported
		// of its containers: only a search shows that nothing is left.
		{"turned away by its kubelet", &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: Node didn't have enough resource: cpu"}}, false},
		{"failed by the node controller, last seen running", injectorIs(corev1.PodFailed, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Audited(test.pod); got != test.want {
				t.Errorf("Audited() = %t, want %t", got, test.want)
			}
		})
	}
}

// rule 36
func TestEnded(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"the injector runs", injectorIs(corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), false},
		{"the injector was killed a moment ago, the pod is still called Running", injectorIs(corev1.PodRunning, exited(137, "Error", "")), true},
		{"evicted, nothing known of the injector", injectorIs(corev1.PodFailed, corev1.ContainerState{}), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := kube.InjectorEnded(test.pod); got != test.want {
				t.Errorf("InjectorEnded() = %t, want %t", got, test.want)
			}
		})
	}
}

// rule 18
func TestNeverInjected(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}}
	for _, test := range []struct {
		name  string
		pod   *corev1.Pod
		never bool
		why   string
	}{
		{"it refused its document", injectorIs(corev1.PodFailed, exited(2, "Error", `{"cleaned":true,"error":"unknown kind"}`)), true, "unknown kind"},
		{"it was asked to end before it had injected", injectorIs(corev1.PodSucceeded, exited(0, "Completed", `{"cleaned":true,"audited":true}`)), true, "asked to end"},
		{"it had injected", injectorIs(corev1.PodSucceeded, exited(0, "Completed", `{"injected":true,"cleaned":true}`)), false, ""},
		{"it was killed and said nothing", injectorIs(corev1.PodFailed, exited(137, "Error", "")), false, ""},
		{"it ended well and said nothing", injectorIs(corev1.PodSucceeded, exited(0, "Completed", "")), false, ""},
		{"it could not clean what it had begun", injectorIs(corev1.PodFailed, exited(1, "Error", `{"error":"busy"}`)), false, ""},
		{"its image is missing", goingWith(0, injectorIs(corev1.PodPending, waiting)), true, "ErrImagePull: no such image"},
		{"its process was never executed", injectorIs(corev1.PodFailed, exited(128, "StartError", "no such file")), true, "no such file"},
		{"the runtime could not run its container", injectorIs(corev1.PodFailed, exited(128, "ContainerCannotRun", "no such device")), true, "no such device"},
		{"its node was lost while it ran", injectorIs(corev1.PodFailed, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), false, ""},
		{"its container was lost after it ran", ran(injectorIs(corev1.PodFailed, exited(137, "ContainerStatusUnknown", ""))), false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if why, never := NeverInjected(test.pod); never != test.never || !strings.Contains(why, test.why) {
				t.Errorf("NeverInjected() = %q, %t; want %t with %q", why, never, test.never, test.why)
			}
		})
	}
}

// The worker counts the results of an injector from its last report.
func TestResults(t *testing.T) {
	kindOf := func(kind v1beta1.Kind, pod *corev1.Pod) *corev1.Pod {
		pod.Labels = map[string]string{v1beta1.LabelDisruptionKind: string(kind)}
		return pod
	}
	cleaner := injectorIs(corev1.PodSucceeded, exited(0, "Completed", `{"cleaned":[]}`))
	cleaner.Labels = map[string]string{v1beta1.LabelCleaner: "true"}
	for _, test := range []struct {
		name              string
		pod               *corev1.Pod
		injected, cleaned string
	}{
		{"injected and cleaned", injectorIs(corev1.PodSucceeded, exited(0, "Completed", `{"injected":true,"cleaned":true}`)), "succeeded", "succeeded"},
		{"injected and could not clean", injectorIs(corev1.PodFailed, exited(2, "Error", `{"injected":true,"error":"busy"}`)), "succeeded", "failed"},
		{"could not inject and cleaned", injectorIs(corev1.PodFailed, exited(1, "Error", `{"cleaned":true,"error":"no such device"}`)), "failed", "succeeded"},
		{"was asked to end before", injectorIs(corev1.PodSucceeded, exited(0, "Completed", `{"cleaned":true}`)), "", "succeeded"},
		{"was killed", injectorIs(corev1.PodFailed, exited(137, "OOMKilled", "")), "", "failed"},
		{"never ran", injectorIs(corev1.PodPending, corev1.ContainerState{}), "", ""},
		{"could not be started", injectorIs(corev1.PodFailed, exited(128, "StartError", "exec: no such file")), "", ""},
		{"ended with its node, as it was to", kindOf(v1beta1.KindNodeFailure, injectorIs(corev1.PodFailed, exited(137, "Unknown", ""))), "", ""},
		{"a cleaner", cleaner, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if injected, cleaned := Results(test.pod); injected != test.injected || cleaned != test.cleaned {
				t.Errorf("Results() = %q, %q, want %q, %q", injected, cleaned, test.injected, test.cleaned)
			}
		})
	}
}

// A second attempt may find a chaos pod of its name that is being deleted; it must not
// count the target as injected.
func TestAChaosPodThatGoesIsNotReady(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	if ready, _ := Ready(pod); !ready {
		t.Error("a chaos pod with the condition Ready is not ready")
	}
	pod.DeletionTimestamp = &metav1.Time{}
	if ready, _ := Ready(pod); ready {
		t.Error("a chaos pod that is being deleted is ready")
	}
}
