package status

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// What decides whether something is injected is asked of the store; what only
// saves the trouble may come from the API server's cache.
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
