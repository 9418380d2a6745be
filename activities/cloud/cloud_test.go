package cloud

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func read(t testing.TB, provider string) []byte {
	t.Helper()
	document, err := os.ReadFile("testdata/" + provider + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

var comparePrefixes = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func TestParse(t *testing.T) {
	for provider, want := range map[string]Ranges{
		AWS:     {"AMAZON": prefixes("192.0.2.0/25"), "S3": prefixes("192.0.2.0/26", "192.0.2.64/26", "2001:db8:1::/48")},
		GCP:     {"Google Cloud": prefixes("198.51.100.0/24", "2001:db8:2::/48"), "Google": prefixes("203.0.113.0/28")},
		Datadog: {"agents": prefixes("203.0.113.0/24", "2001:db8:3::/48"), "synthetics": prefixes("203.0.113.7/32")},
	} {
		got, err := Parse(provider, read(t, provider))
		if diff := cmp.Diff(want, got, comparePrefixes); err != nil || diff != "" {
			t.Errorf("Parse(%s) = %v, (-want +got):\n%s", provider, err, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, test := range map[string]struct{ provider, document, want string }{
		"another provider's":      {AWS, `{"prefixes":[{"ipv4Prefix":"192.0.2.0/24"}]}`, "names no range"},
		"no document":             {GCP, "", "cloud.json or goog.json"},
		"a list":                  {Datadog, "[]", "Datadog's ranges"},
		"a service that is none":  {Datadog, `{"agents":{"prefixes_ipv4":7}}`, "agents"},
		"a range that is none":    {AWS, `{"prefixes":[{"ip_prefix":"192.0.2.0","service":"S3"}]}`, `range "192.0.2.0" of S3`},
		"every address":           {GCP, `{"prefixes":[{"ipv4Prefix":"0.0.0.0/0"}]}`, "every address"},
		"a range without service": {AWS, `{"prefixes":[{"ip_prefix":"192.0.2.0/24"}]}`, "has no service"},
		"IPv4 written as IPv6":    {GCP, `{"prefixes":[{"ipv6Prefix":"::ffff:192.0.2.0/120"}]}`, "written as such"},
		"a provider that is none": {"azure", `{}`, `"azure"`},
	} {
		if got, err := Parse(test.provider, []byte(test.document)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Parse() = %v, %v, want %q", name, got, err, test.want)
		}
	}
}

func TestMerge(t *testing.T) {
	for name, test := range map[string]struct{ all, want []netip.Prefix }{
		"nothing":                     {nil, nil},
		"two halves":                  {prefixes("10.0.1.0/24", "10.0.0.0/24"), prefixes("10.0.0.0/23")},
		"neighbours that are no half": {prefixes("10.0.1.0/24", "10.0.2.0/24"), prefixes("10.0.1.0/24", "10.0.2.0/24")},
		"halves of halves":            {prefixes("10.0.0.0/24", "10.0.1.0/25", "10.0.1.128/25"), prefixes("10.0.0.0/23")},
		"one in another":              {prefixes("10.0.0.7/32", "10.0.0.0/8", "10.0.0.0/9"), prefixes("10.0.0.0/8")},
		"the same twice":              {prefixes("10.0.0.0/24", "10.0.0.0/24"), prefixes("10.0.0.0/24")},
		"both families":               {prefixes("2001:db8:0:1::/64", "10.0.0.0/24", "2001:db8::/64"), prefixes("10.0.0.0/24", "2001:db8::/63")},
		"never everything":            {prefixes("0.0.0.0/1", "128.0.0.0/1"), prefixes("0.0.0.0/1", "128.0.0.0/1")},
	} {
		if diff := cmp.Diff(test.want, Merge(test.all), comparePrefixes); diff != "" {
			t.Errorf("%s: Merge(%v) (-want +got):\n%s", name, test.all, diff)
		}
	}
}

// asks is a disruption of a service of AWS.
func asks(service string) *v1beta1.NetworkDisruption {
	return &v1beta1.NetworkDisruption{Cloud: &v1beta1.NetworkCloud{AWS: []v1beta1.NetworkCloudService{{ServiceName: service, Protocol: "tcp", Flow: "ingress", ConnState: "new"}}}}
}

func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	var to bytes.Buffer
	writer := gzip.NewWriter(&to)
	if _, err := writer.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

func TestRangesOfAConfigMap(t *testing.T) {
	named := types.NamespacedName{Namespace: "chaos", Name: "ranges"}
	kept := func(m corev1.ConfigMap) *corev1.ConfigMap {
		m.Namespace, m.Name = named.Namespace, named.Name
		return &m
	}
	text := kept(corev1.ConfigMap{Data: map[string]string{AWS: string(read(t, AWS))}})
	want := []v1beta1.NetworkHost{
		{Host: "192.0.2.0/25", Protocol: "tcp", Flow: "ingress", ConnState: "new"},
		{Host: "2001:db8:1::/48", Protocol: "tcp", Flow: "ingress", ConnState: "new"},
	}
	for name, test := range map[string]struct {
		service string
		setting types.NamespacedName
		there   *corev1.ConfigMap
		want    []v1beta1.NetworkHost
		refused []string
	}{
		"text":             {"S3", named, text, want, nil},
		"packed":           {"S3", named, kept(corev1.ConfigMap{BinaryData: map[string][]byte{AWS: packed(t, read(t, AWS))}}), want, nil},
		"packed otherwise": {"S3", named, kept(corev1.ConfigMap{BinaryData: map[string][]byte{AWS: {1, 2, 3}}}), nil, []string{"key aws of ConfigMap chaos/ranges", "gzip"}},
		"no such service":  {"S4", named, text, nil, []string{"spec.network.cloud.aws[0].service", `"S4"`, "AMAZON, S3"}},
		"no such key":      {"S3", named, kept(corev1.ConfigMap{}), nil, []string{"key aws", "setting cloud-ranges (now chaos/ranges)", "cloud-ranges-fetch"}},
		"no such ConfigMap": {"S3", types.NamespacedName{Namespace: "chaos", Name: "other"}, text, nil,
			[]string{"setting cloud-ranges (now chaos/other)"}},
		"no setting": {"S3", types.NamespacedName{}, text, nil, []string{"setting cloud-ranges (now none)", "cloud-ranges-fetch", "https://ip-ranges.amazonaws.com"}},
		"rubbish":    {"S3", named, kept(corev1.ConfigMap{Data: map[string]string{AWS: "<html>"}}), nil, []string{"key aws of ConfigMap chaos/ranges", "ip-ranges.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			clouds := &Clouds{Kube: fake.NewClientset(test.there), ConfigMap: test.setting}
			got, problems, err := clouds.Hosts(t.Context(), asks(test.service))
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("hosts, %v (-want +got):\n%s", err, diff)
			}
			if len(problems) > 0 != (test.refused != nil) {
				t.Errorf("problems = %q, want %q", problems, test.refused)
			}
			for _, text := range test.refused {
				if !strings.Contains(fmt.Sprint(problems), text) {
					t.Errorf("problems = %q, want them to say %q", problems, text)
				}
			}
		})
	}
}

func TestAConfigMapThatMayNotBeReadIsAnError(t *testing.T) {
	kube := fake.NewClientset()
	kube.PrependReactor("get", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "ranges", nil)
	})
	clouds := &Clouds{Kube: kube, ConfigMap: types.NamespacedName{Namespace: "other", Name: "ranges"}}
	if _, _, err := clouds.Hosts(t.Context(), asks("S3")); err == nil || !strings.Contains(err.Error(), "cloud-ranges") {
		t.Errorf("error = %v, want it to name the setting", err)
	}
}

func TestRangesAreFetchedOnlyIfThatIsAllowed(t *testing.T) {
	var asked atomic.Int32
	fails := atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if fails.Load() {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(read(t, AWS))
	}))
	defer server.Close()
	clouds := &Clouds{Kube: fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}), URLs: map[string]string{AWS: server.URL}}
	if _, problems, err := clouds.Hosts(t.Context(), asks("S3")); err != nil || len(problems) != 1 || asked.Load() != 0 {
		t.Errorf("not allowed: %q, %v, asked %d times", problems, err, asked.Load())
	}
	clouds.Fetch = true
	fails.Store(true)
	if _, problems, err := clouds.Hosts(t.Context(), asks("S3")); err != nil || !strings.Contains(fmt.Sprint(problems), "503") || !strings.Contains(fmt.Sprint(problems), "cloud-ranges-fetch") {
		t.Errorf("no answer: %q, %v, want the reason and the setting", problems, err)
	}
	fails.Store(false)
	for range 3 {
		hosts, problems, err := clouds.Hosts(t.Context(), asks("S3"))
		if err != nil || len(problems) > 0 || len(hosts) != 2 {
			t.Errorf("fetched: %+v, %q, %v", hosts, problems, err)
		}
	}
	if asked.Load() != 2 {
		t.Errorf("asked %d times, want once without an answer and once with one", asked.Load())
	}
	fails.Store(true)
	last := clouds.fetched[AWS]
	last.at = last.at.Add(-2 * fetchedFor)
	clouds.fetched[AWS] = last
	if hosts, problems, err := clouds.Hosts(t.Context(), asks("S3")); err != nil || len(hosts) != 2 || asked.Load() != 3 {
		t.Errorf("a day later, no answer: %+v, %q, %v, asked %d times; want the last answer", hosts, problems, err, asked.Load())
	}
}
