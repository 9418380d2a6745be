package bridgetest

import (
	"context"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Webhook makes the API server call this process at the port, with the configuration of the
// component that deploy ships. It limits the calls to the namespaces, because other tests
// have bridges of their own. In the namespace system it makes the Secret with the
// certificate. It returns the name that the configuration has here.
func (b *Bridge) Webhook(component, name, path string, port int, system string, namespaces ...string) string {
	b.T.Helper()
	b.Must(b.Kube.Create(b.T.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}))
	shipped, err := os.ReadFile("../../deploy/components/" + component + "/webhook.yaml")
	b.Must(err)
	_, text, _ := strings.Cut(string(shipped), "\n---\n")
	configuration := &unstructured.Unstructured{}
	b.Must(yaml.UnmarshalStrict([]byte(text), &configuration.Object))
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	b.Must(err)
	webhook := webhooks[0].(map[string]any)
	if at, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "path"); configuration.GetName() != name || at != path {
		b.T.Errorf("the shipped configuration is %s with path %s", configuration.GetName(), at)
	}
	webhook["clientConfig"] = map[string]any{"url": "https://localhost:" + strconv.Itoa(port) + path}
	expressions, _, err := unstructured.NestedSlice(webhook, "namespaceSelector", "matchExpressions")
	b.Must(err)
	var values []any
	for _, namespace := range namespaces {
		values = append(values, namespace)
	}
	expressions = append(expressions, map[string]any{"key": corev1.LabelMetadataName, "operator": string(metav1.LabelSelectorOpIn), "values": values})
	b.Must(unstructured.SetNestedSlice(webhook, expressions, "namespaceSelector", "matchExpressions"))
	b.Must(unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks"))
	configuration.SetName(name + "-" + b.Namespace)
	b.Must(client.WithFieldValidation(b.Kube, metav1.FieldValidationStrict).Create(b.T.Context(), configuration))
	b.T.Cleanup(func() {
		if err := b.Kube.Delete(context.Background(), configuration); err != nil {
			b.T.Error(err)
		}
	})
	return configuration.GetName()
}
