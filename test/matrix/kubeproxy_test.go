package matrix

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// lag is how long a restarted program sees an old state, and how long one
// lives with a watch event missing before its watch breaks.
const (
	lag      = 2 * time.Second
	dropTime = time.Second
)

// kubeProxy stands between one program and the API server.
type kubeProxy struct {
	slot    *slot
	program string
	server  *url.URL
	client  http.RoundTripper
}

func (k *kubeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := callOf(r)
	if parameter, selector := k.own(c); selector != "" {
		query := r.URL.Query()
		query.Set(parameter, strings.TrimPrefix(query.Get(parameter)+","+selector, ","))
		r.URL.RawQuery = query.Encode()
	}
	switch {
	case c.verb == "watch":
		k.watch(w, r, c)
	case c.writes():
		k.write(w, r, c)
	default:
		k.past(r, c)
		k.pass(w, k.ask(r.Context(), r, r.Body))
	}
}

// answer is the server's response, or the error of the request.
type answer struct {
	*http.Response
	err error
}

// ask sends a request on. JSON is what the proxy can read, and clients take it.
func (k *kubeProxy) ask(ctx context.Context, r *http.Request, body io.Reader) answer {
	on := r.Clone(ctx)
	on.RequestURI, on.Host = "", ""
	on.URL.Scheme, on.URL.Host = k.server.Scheme, k.server.Host
	on.Body = io.NopCloser(body)
	on.Header.Del("Accept-Encoding")
	on.Header.Set("Accept", jsonOf(on.Header.Get("Accept")))
	response, err := k.client.RoundTrip(on)
	return answer{response, err}
}

// jsonOf is what of an Accept header is JSON: of whole objects, or of their metadata.
func jsonOf(accept string) string {
	types := slices.DeleteFunc(strings.Split(accept, ","), func(t string) bool { return !strings.HasPrefix(strings.TrimSpace(t), "application/json") })
	return cmp.Or(strings.Join(types, ","), "application/json")
}

// pass hands an answer to the program.
func (k *kubeProxy) pass(w http.ResponseWriter, a answer) {
	if a.err != nil {
		panic(http.ErrAbortHandler) // the program is gone, or the server is
	}
	defer func() { _ = a.Body.Close() }()
	maps.Copy(w.Header(), a.Header)
	w.WriteHeader(a.StatusCode)
	if _, err := io.Copy(w, a.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// write lets a change through, or kills a program before or after it, or asks it
// to end meanwhile.
func (k *kubeProxy) write(w http.ResponseWriter, r *http.Request, c kubeCall) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	run := k.slot.run()
	point, f := run.call(role(k.program), run.names.write(c, body))
	victim := k.program
	if f != nil && f.victim != role(k.program) {
		victim = f.victim
	}
	if f != nil && f.how == stop {
		k.slot.end(victim)
		f = nil
	}
	if f == nil {
		a := k.ask(r.Context(), r, bytes.NewReader(body))
		if a.err == nil && a.StatusCode < http.StatusMultipleChoices {
			run.changed(point, k.slot.whoSees(c, decode(body)))
			k.slot.leads(k.program, decode(body))
			a.Body = run.names.learnMade(c, a.Body)
		}
		k.pass(w, a)
		return
	}
	if f.how == before {
		k.slot.restart(victim, 0)
		panic(http.ErrAbortHandler)
	}
	// The request is under way: the death of its client does not end it.
	a := k.ask(context.WithoutCancel(r.Context()), r, bytes.NewReader(body))
	if a.err != nil {
		panic(http.ErrAbortHandler)
	}
	answered, _ := io.ReadAll(run.names.learnMade(c, a.Body))
	_ = a.Body.Close()
	version := int64(0)
	if f.how == stale {
		version = versionBefore(answered)
	}
	if victim == k.program {
		k.slot.restart(victim, version)
		panic(http.ErrAbortHandler)
	}
	a.Body = io.NopCloser(bytes.NewReader(answered))
	k.pass(w, a)
	k.slot.restart(victim, version)
}

// versionBefore is the resource version of the cluster before the write that
// was answered so; 0 if the answer has no version.
func versionBefore(answered []byte) int64 {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(answered, &object) != nil {
		return 0
	}
	version, _ := strconv.ParseInt(object.ResourceVersion, 10, 64)
	return max(version-1, 0)
}

// past makes a list that takes any version one of the past, while the program
// is to see that. The while begins with the first of these lists: on a machine
// that does much else it comes long after what a program asks before.
func (k *kubeProxy) past(r *http.Request, c kubeCall) {
	query := r.URL.Query()
	if c.verb != "list" || query.Get("resourceVersion") != "0" {
		return
	}
	version := k.slot.servePast(k.program)
	if version == 0 {
		return
	}
	query.Set("resourceVersion", fmt.Sprint(version))
	query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	r.URL.RawQuery = query.Encode()
}

// watch hands events on one by one, but for one that is to be dropped.
func (k *kubeProxy) watch(w http.ResponseWriter, r *http.Request, c kubeCall) {
	if until, lasts := k.slot.past(k.program); lasts {
		if r.URL.Query().Get("sendInitialEvents") != "" {
			// A server of before that feature: the client lists instead.
			refuse(w)
			return
		}
		select { // the watch lags behind
		case <-time.After(time.Until(until)):
		case <-r.Context().Done():
		}
	}
	a := k.ask(r.Context(), r, r.Body)
	if a.err != nil || a.StatusCode != http.StatusOK {
		k.pass(w, a)
		return
	}
	defer func() { _ = a.Body.Close() }()
	maps.Copy(w.Header(), a.Header)
	w.WriteHeader(a.StatusCode)
	out := http.NewResponseController(w)
	_ = out.Flush()
	events := single(r.Context(), a.Body)
	var broken <-chan time.Time // never, unless an event is dropped
	for {
		select {
		case event, more := <-events:
			if !more {
				return
			}
			if k.drops(c, event) {
				broken = time.After(dropTime)
				continue
			}
			if _, err := w.Write(append(event, '\n')); err != nil {
				return
			}
			_ = out.Flush()
		case <-broken:
			_, _ = io.WriteString(w, expired+"\n")
			return
		case <-r.Context().Done():
			return
		}
	}
}

// expired is the event with which a server ends a watch whose next events it
// no longer has.
const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}`

func refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled","reason":"Invalid","code":422}`)
}

// single is the stream of a watch as single events, until ctx ends.
func single(ctx context.Context, body io.Reader) <-chan []byte {
	events := make(chan []byte)
	go func() {
		defer close(events)
		for stream := json.NewDecoder(body); ; {
			var event json.RawMessage
			if stream.Decode(&event) != nil {
				return
			}
			select {
			case events <- event:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

func (k *kubeProxy) drops(c kubeCall, raw []byte) bool {
	if !k.slot.acts(k.program) {
		return false
	}
	if c.resource == "mutatingwebhookconfigurations" || k.program == worker && c.namespace == "" && c.resource == "pods" {
		return false // they are of all slots, and the worker counts the pods of all: those are in no other run
	}
	var event struct {
		Type   string
		Object json.RawMessage
	}
	if json.Unmarshal(raw, &event) != nil || event.Type == "BOOKMARK" || event.Type == "ERROR" {
		return false
	}
	if c.resource == "nodes" && (k.program == worker || !bytes.Contains(event.Object, []byte(k.slot.shop))) {
		return false // the worker counts them, and a node of all slots is in no run
	}
	run := k.slot.run()
	name := run.names.event(c.resource, event.Type, event.Object)
	return run.event(role(k.program), name)
}

// whoSees are the programs that hold in a cache what the call changes.
func (s *slot) whoSees(c kubeCall, written runtime.Object) []string {
	resource, _, _ := strings.Cut(c.resource, "/")
	switch {
	case s.pair != nil: // of two bridges the other one goes on, with a cache of its own
		return nil
	case resource == "pods" && c.namespace == s.shop: // the worker reads targets when it has to
		return []string{bridge}
	case resource == "pods":
		return []string{bridge, worker}
	case resource == "nodes": // the worker counts them
		return []string{bridge, worker}
	case resource == "configmaps" && isClaim(c.name, written):
		return []string{worker}
	case slices.Contains([]string{"disruptions", "disruptioncrons", "disruptionrollouts", "disruptionscenarios", "emergencystops"}, resource):
		return []string{bridge}
	}
	return nil
}

// A record of targets, in which a disruption claims them, ends with the number of its
// shard.
var claimName = regexp.MustCompile(`^squall-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+$`)

// isClaim is true for a record of targets, by its name in the call or in the object.
func isClaim(name string, written runtime.Object) bool {
	if record, ok := written.(*corev1.ConfigMap); ok && name == "" {
		name = record.Name
	}
	return claimName.MatchString(name)
}
