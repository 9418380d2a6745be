package cloud

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// The settings of the worker that messages name.
const (
	SettingConfigMap = "cloud-ranges"
	SettingFetch     = "cloud-ranges-fetch"
)

const (
	// fetchedFor is how long a fetched document is used without asking again.
	fetchedFor = 24 * time.Hour
	// fetchTimeout bounds a fetch: a disruption waits for it.
	fetchTimeout = 5 * time.Second
	// mostDocument bounds a document, unpacked, in bytes. The longest one is 2 MB.
	mostDocument = 32 << 20
)

// published are the addresses where the providers publish their ranges.
var published = map[string]string{
	AWS:     "https://ip-ranges.amazonaws.com/ip-ranges.json",
	GCP:     "https://www.gstatic.com/ipranges/cloud.json",
	Datadog: "https://ip-ranges.datadoghq.com/",
}

// Clouds finds ranges in the places that the worker's settings name. It is safe for
// concurrent use, and may be copied only before its first use.
type Clouds struct {
	Kube kubernetes.Interface
	// ConfigMap has a document for each provider; an empty name means that there is none.
	ConfigMap types.NamespacedName
	// Fetch allows to fetch the document of a provider that is not in the ConfigMap.
	Fetch bool
	// URLs are the addresses to fetch from, by provider; nil means the providers' own.
	URLs map[string]string

	mu      sync.Mutex
	fetched map[string]document
}

// document is the answer of a provider.
type document struct {
	ranges Ranges
	at     time.Time
}

// Hosts returns the ranges that a network disruption names, as hosts. problems lists
// the ranges that are unknown, and how to fix that. err is an error of the cluster.
func (c *Clouds) Hosts(ctx context.Context, n *v1beta1.NetworkDisruption) (hosts []v1beta1.NetworkHost, problems []string, err error) {
	if n.Cloud == nil {
		return nil, nil, nil
	}
	for _, asked := range []struct {
		provider string
		services []v1beta1.NetworkCloudService
	}{{AWS, n.Cloud.AWS}, {GCP, n.Cloud.GCP}, {Datadog, n.Cloud.Datadog}} {
		if len(asked.services) == 0 {
			continue
		}
		ranges, problem, err := c.ranges(ctx, asked.provider)
		if err != nil {
			return nil, nil, err
		}
		if problem != "" {
			problems = append(problems, "spec.network.cloud."+asked.provider+": "+problem)
			continue
		}
		for i, service := range asked.services {
			of, known := ranges[service.ServiceName]
			if !known {
				problems = append(problems, fmt.Sprintf("spec.network.cloud.%s[%d].service: no ranges are published of %q, but of %s",
					asked.provider, i, service.ServiceName, few(ranges)))
				continue
			}
			for _, prefix := range Merge(of) {
				hosts = append(hosts, v1beta1.NetworkHost{
					Host: prefix.String(), Protocol: service.Protocol, Flow: service.Flow, ConnState: service.ConnState,
				})
			}
		}
	}
	return hosts, problems, nil
}

// few names some services.
func few(ranges Ranges) string {
	const most = 8
	names := slices.Sorted(maps.Keys(ranges))
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// ranges returns the ranges of a provider, or why there are none.
func (c *Clouds) ranges(ctx context.Context, provider string) (ranges Ranges, problem string, err error) {
	m, err := c.configMap(ctx)
	if err != nil {
		return nil, "", err
	}
	if text, found, err := documentIn(m, provider); found {
		if err == nil {
			ranges, err = Parse(provider, text)
		}
		if err != nil {
			return nil, fmt.Sprintf("key %s of ConfigMap %s: %v", provider, c.ConfigMap, err), nil
		}
		return ranges, "", nil
	}
	if !c.Fetch {
		return nil, fmt.Sprintf("the worker has no address ranges; put the provider's list (%s) into key %s of the ConfigMap in its setting %s%s,"+
			" or set %s", published[provider], provider, SettingConfigMap, c.named(), SettingFetch), nil
	}
	ranges, err = c.fetch(ctx, provider)
	if err != nil {
		return nil, fmt.Sprintf("the download by the setting %s failed: %v;"+
			" put the address ranges into key %s of the ConfigMap in its setting %s%s", SettingFetch, err, provider, SettingConfigMap, c.named()), nil
	}
	return ranges, "", nil
}

func (c *Clouds) named() string {
	if c.ConfigMap.Name == "" {
		return " (now none)"
	}
	return " (now " + c.ConfigMap.String() + ")"
}

// configMap returns the ConfigMap that the setting names; an empty one if it does not
// exist.
func (c *Clouds) configMap(ctx context.Context) (*corev1.ConfigMap, error) {
	if c.ConfigMap.Name == "" {
		return &corev1.ConfigMap{}, nil
	}
	m, err := c.Kube.CoreV1().ConfigMaps(c.ConfigMap.Namespace).Get(ctx, c.ConfigMap.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return &corev1.ConfigMap{}, nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("setting %s: %w; give the worker the right to get it, or keep it in the namespace of the chaos pods", SettingConfigMap, err)
	case err != nil:
		return nil, fmt.Errorf("read ConfigMap %s of setting %s: %w", c.ConfigMap, SettingConfigMap, err)
	}
	return m, nil
}

// documentIn returns a provider's document. Binary data is gzip: some documents are
// longer than a ConfigMap can be.
func documentIn(m *corev1.ConfigMap, key string) (text []byte, found bool, err error) {
	if text, found := m.Data[key]; found {
		return []byte(text), true, nil
	}
	packed, found := m.BinaryData[key]
	if !found {
		return nil, false, nil
	}
	if text, err = unpack(packed); err != nil {
		err = fmt.Errorf("binary data must be packed by gzip: %w", err)
	}
	return text, true, err
}

func unpack(packed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return readAll(reader)
}

func readAll(from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, mostDocument+1))
	if err == nil && len(text) > mostDocument {
		err = fmt.Errorf("it is longer than %d bytes", mostDocument)
	}
	return text, err
}

// fetch asks the provider, at most once a day. If it does not answer, fetch returns its
// last answer.
func (c *Clouds) fetch(ctx context.Context, provider string) (Ranges, error) {
	c.mu.Lock()
	defer c.mu.Unlock() // other callers would ask for the same
	last, found := c.fetched[provider]
	if found && time.Since(last.at) < fetchedFor {
		return last.ranges, nil
	}
	ranges, err := ask(ctx, provider, c.url(provider))
	if err != nil && found {
		return last.ranges, nil
	}
	if err != nil {
		return nil, err
	}
	if c.fetched == nil {
		c.fetched = map[string]document{}
	}
	c.fetched[provider] = document{ranges, time.Now()}
	return ranges, nil
}

func (c *Clouds) url(provider string) string {
	if c.URLs != nil {
		return c.URLs[provider]
	}
	return published[provider]
}

func ask(ctx context.Context, provider, url string) (Ranges, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // only read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	text, err := readAll(response.Body)
	if err != nil {
		return nil, err
	}
	return Parse(provider, text)
}
