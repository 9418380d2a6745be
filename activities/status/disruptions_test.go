package status

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestAStatusWriteSendsNoManagedFields(t *testing.T) {
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			body, _ := io.ReadAll(r.Body)
			sent += string(body)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":"Disruption","metadata":{"name":"calm","namespace":"shop","uid":"u1","resourceVersion":"7","managedFields":[{"manager":"kubectl"}]}}`, v1beta1.GroupVersion)
	}))
	defer server.Close()
	disruptions, err := NewDisruptions(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ref := v1beta1.DisruptionRef{Namespace: "shop", Name: "calm", UID: "u1"}
	for range 2 { // based on the version read, then on the version that the first write returned
		if err := disruptions.UpdateStatus(t.Context(), ref, func(d *v1beta1.Disruption) { d.Status.Ending = "deleted" }); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(sent, `"resourceVersion":"7"`) != 2 || strings.Contains(sent, "managedFields") {
		t.Errorf("sent %s; want two objects without managed fields", sent)
	}
}

// Without the CustomResourceDefinition the worker cannot read EmergencyStops. The
// disruption still exists.
func TestAStopCannotBeReadWithoutItsDefinition(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	disruptions, err := NewDisruptions(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if stop, err := disruptions.EmergencyStop(t.Context()); stop != "" || err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "CustomResourceDefinition") {
		t.Errorf("stop %q, %v; want an error about the definition, which says of no object that it is gone", stop, err)
	}
}

// A read that decides on an injection asks the store; a read that only saves work may
// use the API server's cache.
func TestHowEmergencyStopsAreRead(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":"EmergencyStopList","items":[{"metadata":{"name":"all"}}]}`, v1beta1.GroupVersion)
	}))
	defer server.Close()
	disruptions, err := NewDisruptions(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	const all = "/apis/chaos.squall.dev/v1beta1/emergencystops"
	for _, test := range []struct {
		name string
		read func(context.Context) (string, error)
		want string
	}{
		{"live", disruptions.EmergencyStop, all},
		{"cached", disruptions.CachedEmergencyStop, all + "?resourceVersion=0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if stop, err := test.read(t.Context()); err != nil || stop == "" || asked != test.want {
				t.Errorf("stop %q, %v, asked for %s; want one, by %s", stop, err, asked, test.want)
			}
		})
	}
}
