package requester

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/certificate"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/temporalserver"
)

func TestMain(m *testing.M) { bridgetest.Main(m) }

// cluster has an API server that calls the bridge for requests of the group shop, with the
// shipped configuration.
type cluster struct {
	*bridgetest.Bridge
	config *rest.Config
}

func begin(t *testing.T) *cluster {
	t.Helper()
	port := temporalserver.FreePort(t)
	place := certificate.Place{Host: "localhost", Secret: Name}
	c := &cluster{config: apiserver.Start(t)}
	c.Bridge = bridgetest.New(t, bridgetest.Controllers(func(_ *bridgetest.Bridge, m manager.Manager, _ *temporal.Workflows) error {
		return Setup(m, Settings{Enabled: true, Port: port}, place)
	}))
	place.Namespace = c.MakeNamespace("system-")
	place.Configuration = c.Webhook("requesters", Name, Path, port, place.Namespace, c.Namespace)
	c.Start()
	bridgetest.Eventually(t, bridgetest.Soon, "the webhook is asked", func() bool {
		made, err := c.as("ann", "disruptions").Create(t.Context(), c.sample("container-failure", "probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		c.Must(err)
		return v1beta1.RequesterOf(made).User != ""
	})
	return c
}

// as returns the resources of the namespace for a user with every right.
func (c *cluster) as(user, resource string) dynamic.ResourceInterface {
	config := rest.CopyConfig(c.config)
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"shop", "system:masters"}}
	}
	return dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: resource}).Namespace(c.Namespace)
}

// sample is the shipped sample of that file, with another name.
func (c *cluster) sample(file, name string) *unstructured.Unstructured {
	c.T.Helper()
	text, err := os.ReadFile("../../deploy/samples/" + file + ".yaml")
	c.Must(err)
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(&object.Object); err == io.EOF {
			c.T.Fatalf("%s has no object of Squall", file)
		} else {
			c.Must(err)
		}
		if strings.HasPrefix(object.GetKind(), "Disruption") {
			object.SetNamespace(c.Namespace)
			object.SetName(name)
			return object
		}
	}
}

func (c *cluster) want(what string, o *unstructured.Unstructured, err error, user string) {
	c.T.Helper()
	c.Must(err)
	want := v1beta1.Requester{}
	if user != "" {
		want = v1beta1.Requester{User: user, Groups: []string{"shop", "system:masters", "system:authenticated"}}
	}
	if diff := cmp.Diff(want, v1beta1.RequesterOf(o)); diff != "" {
		c.T.Errorf("%s (-want +noted):\n%s", what, diff)
	}
}

func (c *cluster) patch(user, resource, name, body string) (*unstructured.Unstructured, error) {
	return c.as(user, resource).Patch(c.T.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
}

// rule S19: the webhook records the creator, whatever the manifest contains. Later editors
// do not replace the creator, except for a cron, rollout or scenario whose spec they
// change.
func TestWhoAskedIsNoted(t *testing.T) {
	c := begin(t)
	for resource, file := range map[string]string{
		"disruptions": "container-failure", "disruptioncrons": "disruption-cron", "disruptionrollouts": "disruption-rollout", "disruptionscenarios": "disruption-scenario",
	} {
		t.Run(resource, func(t *testing.T) {
			sample := c.sample(file, "web")
			sample.SetAnnotations(map[string]string{v1beta1.AnnotationRequester: "root", "mine": "kept"})
			made, err := c.as("ann", resource).Create(t.Context(), sample, metav1.CreateOptions{})
			c.want("created by ann", made, err, "ann")
			if made.GetAnnotations()["mine"] != "kept" {
				t.Errorf("annotations %v", made.GetAnnotations())
			}
			noted, err := c.patch("bob", resource, "web", `{"metadata":{"annotations":{"`+v1beta1.AnnotationRequester+`":"bob","a":"b"}}}`)
			c.want("annotated by bob", noted, err, "ann")
			noted, err = c.patch("bob", resource, "web", `{"metadata":{"annotations":null}}`)
			c.want("bared by bob", noted, err, "ann")
			by, body := "bob", `{"spec":{"reporting":{"purpose":"another reason for it"}}}`
			if resource == "disruptions" {
				by = "ann"
			}
			noted, err = c.patch("bob", resource, "web", body)
			c.want("rewritten by bob", noted, err, by)
			noted, err = c.patch("system:serviceaccount:squall-system:squall-worker", resource, "web", `{"metadata":{"labels":{"a":"b"}},"spec":{"reporting":{"purpose":"a third reason for it"}}}`)
			c.want("rewritten by a program of Squall", noted, err, by)
		})
	}
	run := c.sample("container-failure", "run")
	run.SetAnnotations(v1beta1.Requester{User: "carl"}.Annotations())
	made, err := c.as("system:serviceaccount:squall-system:squall-worker", "disruptions").Create(t.Context(), run, metav1.CreateOptions{})
	if c.Must(err); v1beta1.RequesterOf(made).User != "carl" {
		t.Errorf("a run is noted as asked for by %+v", v1beta1.RequesterOf(made))
	}
}

// No user who applies owns the recorded annotations. Otherwise applying the same manifest
// while the webhook is away would remove them, and the API server would refuse that.
func TestWhoAppliesDoesNotOwnWhatIsNoted(t *testing.T) {
	c := begin(t)
	applied := c.sample("container-failure", "applied")
	for _, by := range []string{"ann", "ann", "bob"} {
		noted, err := c.as(by, "disruptions").Apply(t.Context(), "applied", applied, metav1.ApplyOptions{FieldManager: "gitops"})
		c.want("applied by "+by, noted, err, "ann")
		for _, owner := range noted.GetManagedFields() {
			if fields := owner.FieldsV1.GetRawString(); strings.Contains(fields, v1beta1.AnnotationRequester) {
				t.Errorf("%s owns who asked: %s", owner.Manager, fields)
			}
		}
	}
}
