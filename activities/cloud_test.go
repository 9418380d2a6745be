package activities

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// losesClouds is a disruption of these services of AWS.
func losesClouds(services ...v1beta1.NetworkCloudService) func(*v1beta1.DisruptionSpec) {
	return func(spec *v1beta1.DisruptionSpec) {
		spec.Faults = v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 100, Cloud: &v1beta1.NetworkCloud{AWS: services}}}
	}
}

// publishes writes the ConfigMap of the worker's setting: AWS's document, with these ranges
// of each service.
func (c *testCluster) publishes(ranges map[string][]string) {
	c.Helper()
	var all []string
	for service, some := range ranges {
		for _, prefix := range some {
			all = append(all, fmt.Sprintf(`{"ip_prefix": %q, "service": %q}`, prefix, service))
		}
	}
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: c.Clouds.ConfigMap.Name},
		Data:       map[string]string{"aws": `{"prefixes": [` + strings.Join(all, ",") + `]}`},
	}
	maps := c.Client.CoreV1().ConfigMaps(c.Clouds.ConfigMap.Namespace)
	_, err := maps.Update(c.Context(), m, metav1.UpdateOptions{})
	if err != nil {
		_, err = maps.Create(c.Context(), m, metav1.CreateOptions{})
	}
	c.Must(err)
}

// rule N12
func TestRangesOfACloudReachTheChaosPodsAndStay(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	c.publishes(map[string][]string{"S3": {"192.0.2.0/25", "192.0.2.128/25", "198.51.100.0/24"}, "EC2": {"203.0.113.0/24"}})
	address := c.makeService("db")
	ref := c.started("clouds", func(spec *v1beta1.DisruptionSpec) {
		losesClouds(v1beta1.NetworkCloudService{ServiceName: "S3", Protocol: "tcp", Flow: "ingress"}, v1beta1.NetworkCloudService{ServiceName: "EC2"})(spec)
		spec.Network.Services = []v1beta1.NetworkService{{Name: "db"}}
		spec.CPUPressure = &v1beta1.CPUPressure{}
	})
	ranges := []string{"192.0.2.0/24:0/tcp", "198.51.100.0/24:0/tcp", "203.0.113.0/24:0/"}
	c.wantHosts(ref, append([]string{address + ":80/tcp"}, ranges...)...)

	// The provider's later ranges are for later disruptions. The service's addresses stay
	// up to date.
	c.publishes(map[string][]string{"EC2": {"10.0.0.0/8"}})
	c.hasEndpoints("db", "10.250.0.1")
	c.restartWorker()
	do[any](c, c.FollowServices, ref)
	c.wantHosts(ref, append([]string{address + ":80/tcp", "10.250.0.1:8080/tcp"}, ranges...)...)
}

// rule N12
func TestCloudsWithoutKnownRangesAreRefused(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	refused := func(name, service string, parts ...string) {
		t.Helper()
		ref := c.Disruption(name, losesClouds(v1beta1.NetworkCloudService{ServiceName: service}))
		plan := do[prepare.Plan](c, c.Prepare, ref)
		for _, part := range parts {
			if !strings.Contains(plan.Rejected, part) {
				t.Errorf("%s is rejected because of %q, want %q in it", name, plan.Rejected, part)
			}
		}
		c.WantCondition(ref, v1beta1.ConditionAccepted, metav1.ConditionFalse, parts[0])
	}
	refused("no-config-map", "S3", "spec.network.cloud.aws: ", "setting cloud-ranges", c.Clouds.ConfigMap.String(), "set cloud-ranges-fetch")

	var many []string // every other /24, so that none of them can be merged
	for i := range 2049 {
		many = append(many, fmt.Sprintf("10.%d.%d.0/24", i/128, i%128*2))
	}
	c.publishes(map[string][]string{"S3": {"192.0.2.0/24"}, "EC2": {"203.0.113.0/24"}, "AMAZON": many})
	refused("unknown-service", "s3", "spec.network.cloud.aws[0].service", `"s3"`, "AMAZON, EC2, S3")
	refused("too-many", "AMAZON", "spec.network: ", "2049 addresses of services and cloud", "2049 rules", "2048 are possible")

	c.publishes(map[string][]string{"AMAZON": many[:2048]})
	ref := c.Disruption("just-enough", losesClouds(v1beta1.NetworkCloudService{ServiceName: "AMAZON"}))
	if plan := do[prepare.Plan](c, c.Prepare, ref); plan.Rejected != "" {
		t.Errorf("2048 ranges are rejected because of %q", plan.Rejected)
	}
}
