package matrix

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	commandpb "go.temporal.io/api/command/v1"
	enumspb "go.temporal.io/api/enums/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/workflows/contract"
)

// names gives calls and objects names that are the same in every run. Targets have fixed
// names; other objects have one of their run.
type names struct {
	mu sync.Mutex
	// byID has, for what a run made, its stable name: chaos pods by name,
	// objects by UID, activity tasks by token.
	byID map[string]string
}

func newNames() *names { return &names{byID: map[string]string{}} }

func (n *names) know(id, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id != "" {
		n.byID[id] = name
	}
}

func (n *names) of(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cmp.Or(n.byID[id], id)
}

// replace puts stable names in the place of all others.
func (n *names) replace(text string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	longest := slices.SortedFunc(maps.Keys(n.byID), func(a, b string) int { return len(b) - len(a) })
	for _, id := range longest {
		text = strings.ReplaceAll(text, id, n.byID[id])
	}
	return text
}

// kubeCall is a request to the API server.
type kubeCall struct {
	verb      string // as RBAC names it
	resource  string // with the subresource
	namespace string
	name      string
}

// writes is false also of a question that is sent as an object: a worker asks for
// its rights while it starts, which a run may or may not come to see.
func (c kubeCall) writes() bool {
	return c.verb != "get" && c.verb != "list" && c.verb != "watch" && c.resource != "selfsubjectaccessreviews"
}

func callOf(r *http.Request) kubeCall {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	parts = parts[min(len(parts), map[string]int{"api": 2, "apis": 3}[parts[0]]):]
	var c kubeCall
	if len(parts) > 2 && parts[0] == "namespaces" {
		c.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		c.resource = parts[0]
	}
	if len(parts) > 1 {
		c.name = parts[1]
	}
	if len(parts) > 2 {
		c.resource += "/" + parts[2]
	}
	c.verb = verbOf(r, c.name == "")
	return c
}

func verbOf(r *http.Request, many bool) string {
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		return "watch"
	case r.Method == http.MethodGet && many:
		return "list"
	case r.Method == http.MethodDelete && many:
		return "deletecollection"
	}
	return map[string]string{"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[r.Method]
}

// write names a call that changes something: "create events Created on pod
// web-0".
func (n *names) write(c kubeCall, body []byte) string {
	object := decode(body)
	if object != nil {
		n.learn(object)
	}
	parts := []string{c.verb, c.resource}
	switch o := object.(type) {
	case *corev1.Event:
		parts = append(parts, o.Reason, "on", strings.ToLower(o.InvolvedObject.Kind), n.of(o.InvolvedObject.Name))
	case *unstructured.Unstructured:
		parts = append(parts, stateOf(o))
	default:
		name := c.name
		if o, ok := object.(client.Object); ok && name == "" {
			name = o.GetName()
		}
		parts = append(parts, n.replace(name))
		if strings.HasPrefix(c.resource, "pods") && c.verb == "patch" {
			parts = append(parts, patchOf(body))
		}
	}
	return joined(parts)
}

// joined are the parts with one space between them; some may be empty.
func joined(parts []string) string {
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

// made stores the names of a disruption that has begun.
func (n *names) made(d client.Object) {
	n.know(string(d.GetUID()), "UID of "+d.GetName())
	n.know(podops.OfDisruption(d.GetUID()).ID, "chaos-ID of "+d.GetName())
}

// learnMade notes what a program has made, if it is a disruption, and returns the answer.
func (n *names) learnMade(c kubeCall, answer io.ReadCloser) io.ReadCloser {
	if c.verb != "create" || c.resource != "disruptions" {
		return answer
	}
	text, _ := io.ReadAll(answer)
	_ = answer.Close()
	if d, ok := decode(text).(client.Object); ok && d.GetUID() != "" {
		n.made(d)
	}
	return io.NopCloser(bytes.NewReader(text))
}

// learn notes what an object is called in this run.
func (n *names) learn(object runtime.Object) {
	pod, ok := object.(*corev1.Pod)
	if ok && pod.Labels[v1beta1.LabelSweep] != "" {
		n.know(pod.Name, fmt.Sprintf("sweep's %s on %s", pod.Spec.Containers[0].Args[0], pod.Spec.NodeName))
		return
	}
	if !ok || pod.Labels[v1beta1.LabelDisruptionUID] == "" {
		return
	}
	name := n.of(pod.Labels[v1beta1.LabelTargetUID]) + "/" + pod.Labels[v1beta1.LabelDisruptionKind]
	if pod.Labels[v1beta1.LabelCleaner] != "" {
		name += " (cleaner)"
	}
	n.know(pod.Name, name)
	n.know(string(pod.UID), "uid of "+name)
}

// event names a watch event: "MODIFIED pods web-0/cpu-pressure Running deleting".
func (n *names) event(resource, kind string, raw []byte) string {
	object := decode(raw)
	if object == nil {
		return ""
	}
	n.learn(object)
	parts := []string{kind, resource}
	switch o := object.(type) {
	case *corev1.Pod:
		parts = append(parts, n.of(o.Name), string(o.Status.Phase), phaseOf(o))
		if o.DeletionTimestamp != nil {
			parts = append(parts, "deleting")
		}
	case *unstructured.Unstructured:
		parts = append(parts, stateOf(o))
	case client.Object:
		parts = append(parts, n.replace(o.GetName()))
	}
	return joined(parts)
}

// decode reads an object, whatever it is encoded in; nil if it is none.
func decode(body []byte) runtime.Object {
	if object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		return object
	}
	object := &unstructured.Unstructured{}
	if object.UnmarshalJSON(body) != nil {
		return nil // a patch that is a list, or no body at all
	}
	return object
}

// stateOf is what distinguishes the states of a Disruption, and of its parent.
func stateOf(o *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	injection, _, _ := unstructured.NestedString(o.Object, "status", "injectionStatus")
	parts := []string{phase, injection}
	if o.GetKind() != "Disruption" {
		step, _, _ := unstructured.NestedString(o.Object, "status", "step")
		parts = append(parts, step)
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if fields, ok := c.(map[string]any); ok {
				parts = append(parts, fmt.Sprintf("%v=%v", fields["type"], fields["reason"]))
			}
		}
	}
	if len(o.GetFinalizers()) == 0 {
		parts = append(parts, "without finalizer")
	}
	if o.GetDeletionTimestamp() != nil {
		parts = append(parts, "deleting")
	}
	return joined(parts)
}

// observation is the content of a signal, for its name.
func observation(payload []byte) string {
	var o contract.Observation
	if json.Unmarshal(payload, &o) != nil || o.Hash == "" {
		return ""
	}
	return fmt.Sprintf(" ended=%d lost=%d candidates=%d", o.Ended, o.TargetsLost, o.Candidates)
}

// decision names what a workflow task decided, by the weightiest command.
func decision(commands []*commandpb.Command) string {
	best, rank := "nothing", 0
	for _, c := range commands {
		name, weight := "show", 1
		switch c.GetCommandType() {
		case enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION, enumspb.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION, enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION:
			name, weight = strings.ToLower(strings.TrimSuffix(c.GetCommandType().String(), "WorkflowExecution")), 6
		case enumspb.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK:
			name, weight = "schedule "+c.GetScheduleActivityTaskCommandAttributes().GetActivityType().GetName(), 5
		case enumspb.COMMAND_TYPE_START_TIMER:
			name, weight = "start timer", 4
		case enumspb.COMMAND_TYPE_PROTOCOL_MESSAGE:
			name, weight = "answer update", 3
		case enumspb.COMMAND_TYPE_REQUEST_CANCEL_ACTIVITY_TASK, enumspb.COMMAND_TYPE_CANCEL_TIMER:
			name, weight = "cancel", 2
		}
		if weight > rank {
			best, rank = name, weight
		}
	}
	return best
}
