package operations

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/kuperator"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/promise"
	"github.com/squall-chaos/squall/test/sample"
	"github.com/squall-chaos/squall/test/world"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

var (
	seed   = flag.Uint64("seed", 0, "what is done follows from it; 0: the commit")
	wanted = flag.Int("operations", 30, "how many operations on targets are begun with each driver; make test-long begins 1,000")
)

const (
	// pods are there all the time: disruptions compete for them.
	pods = 40
	// atOnce is how many disruptions there are.
	atOnce = 6
	// tick is how often it is looked at what is to be done.
	tick = 20 * time.Millisecond
)

// rules L4, L6, L7, L8, L16: whatever happens, nothing is left, with each driver.
func TestNothingIsLeftOfOperations(t *testing.T) {
	*seed = uint64(sample.Of(t, *seed))
	w := world.Start(t)
	proxy := newProxy(w, *seed)
	kubeconfig := "KUBECONFIG=" + w.Kubeconfig("http://"+proxy.address)
	worker := w.Worker(kubeconfig).Start()
	bridge := w.Bridge(kubeconfig, "SQUALL_POD_OPS_DRIVER=true").Start()
	for _, driver := range []string{"the bridge drives", "Kuperator drives"} {
		t.Run(driver, func(t *testing.T) {
			here := w.In(t)
			here.Shop = w.NewNamespace("shop-")
			s := &storm{
				proxy: proxy, programs: []*world.Program{worker, bridge},
				random: rand.New(rand.NewPCG(*seed, 0)), tally: map[string]int{},
			}
			if driver == "Kuperator drives" {
				s.webhook = kuperator.Serve(t, w.Kube, here.Shop)
			} else {
				defer builtIn(here)()
			}
			s.shop = newShop(here, s.webhook != nil)
			s.rage()
			s.calm()
		})
	}
}

// builtIn has the cluster know that the bridge is a driver, until the function is called.
func builtIn(w *world.World) (remove func()) {
	webhooks := w.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := webhooks.Create(w.Context(), &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: podops.BuiltInDriver}}, metav1.CreateOptions{})
	w.Must(err)
	return func() { w.Must(webhooks.Delete(w.Context(), podops.BuiltInDriver, metav1.DeleteOptions{})) }
}

// storm is what happens to the disruptions of one namespace.
type storm struct {
	*shop
	proxy    *proxy
	programs []*world.Program
	// webhook is Kuperator's; nil where the bridge drives. It is away until back.
	webhook *kuperator.Server
	back    time.Time
	random  *rand.Rand
	made    int
	courses []*course
	strikes []strike
	others  []*other
	kills   int
	tally   map[string]int
}

// rage lasts until as many operations as wanted have begun and that shows something,
// and all disruptions have ended.
func (s *storm) rage() {
	s.Helper()
	s.replace()
	world.Eventually(s, s.Patience, "all pods are in service", func() bool { return s.inService() == pods })
	s.proxy.harm(true)
	defer s.proxy.harm(false)
	defer s.reach()
	began, took, limit := time.Now(), patience.Stopwatch(s), 5*time.Minute+time.Duration(*wanted)*2*time.Second
	for begun := 0; !s.enough(begun) || len(s.courses)+len(s.others) > 0; begun = s.begun() {
		if spent, lost := took(); spent > limit {
			s.Fatalf("seed %d: %d operations and %d disruptions have not ended within %s (lost %s): %s", *seed, len(s.others), len(s.courses), limit, lost, s.going())
		}
		for !s.enough(begun) && len(s.courses) < atOnce {
			s.begin()
		}
		s.courses = slices.DeleteFunc(s.courses, s.gone)
		s.strike()
		s.others = slices.DeleteFunc(s.others, s.ended)
		s.kill(begun)
		s.outage()
		s.replace()
		<-time.After(tick)
	}
	s.tally["seconds"] = int(time.Since(began).Seconds())
}

// enough is true when as many operations as wanted have begun, one was given and
// something was injected. A sample of few disruptions may not come to that.
func (s *storm) enough(begun int) bool {
	seen := s.count()
	return begun >= *wanted && seen["operations given"] > 0 && seen["injections"] > 0
}

// kill ends a program once in 15 operations, and starts it again: worker and bridge
// in turn.
func (s *storm) kill(begun int) {
	if begun < 10+15*s.kills {
		return
	}
	program := s.programs[s.kills%len(s.programs)]
	s.kills++
	s.tally["killed: "+program.Name]++
	program.Kill()
	program.Start()
}

// outage takes Kuperator's webhook away for up to two seconds now and then: no
// client can write to a pod.
func (s *storm) outage() {
	switch {
	case s.webhook == nil:
	case s.webhook.Away.Load() && time.Now().After(s.back):
		s.reach()
	case !s.webhook.Away.Load() && s.random.IntN(300) == 0:
		s.back = time.Now().Add(time.Duration(s.random.IntN(2000)) * time.Millisecond)
		s.webhook.Away.Store(true)
		s.tally["outages of the webhook"]++
	}
}

func (s *storm) reach() {
	if s.webhook != nil {
		s.webhook.Away.Store(false)
	}
}

// replace makes pods in place of those that were deleted.
func (s *storm) replace() {
	if s.webhook != nil && s.webhook.Away.Load() {
		return
	}
	for n := s.there(); n < pods; n++ {
		s.made++
		s.makePod(fmt.Sprintf("web-%05d", s.made), s.random.IntN(2) == 0)
	}
}

// calm is what is to be found afterwards.
func (s *storm) calm() {
	s.Helper()
	began := time.Now()
	for len(s.left()) > 0 && time.Since(began) < s.Patience { // drivers and kubelets still have work to do
		<-time.After(100 * time.Millisecond)
	}
	left, err := promise.Cluster{Kube: s.Kube, Chaos: s.Chaos, Shop: s.Shop}.Left(s.Context())
	s.Must(err)
	if left = append(left, s.left()...); len(left) > 0 {
		s.Errorf("seed %d: left: %v", *seed, left)
	}
	for _, wrong := range s.judge() {
		s.Errorf("seed %d: %s", *seed, wrong)
	}
	world.Eventually(s, s.Patience, "all pods are in service again", func() bool { return s.inService() == s.there() })
	maps.Copy(s.tally, s.count())
	s.tally["pods not in service at the end"] = s.there() - s.inService()
	maps.Copy(s.tally, s.proxy.count())
	var output []string
	for _, what := range slices.Sorted(maps.Keys(s.tally)) {
		output = append(output, fmt.Sprintf("%s %d", what, s.tally[what]))
	}
	s.Logf("seed %d: %s", *seed, strings.Join(output, "; "))
	if s.tally["operations given"] == 0 || s.tally["injections"] == 0 || s.tally["operations undone"] == 0 && *wanted >= 100 {
		s.Errorf("seed %d: that shows nothing: no operation was given or undone, or nothing was injected", *seed)
	}
}

// left are labels, annotations and finalizers of operations, and Squall's own, on pods.
func (s *storm) left() (left []string) {
	list, err := s.Kube.CoreV1().Pods(s.Shop).List(s.Context(), metav1.ListOptions{})
	s.Must(err)
	for i := range list.Items {
		if pod := &list.Items[i]; len(traces(pod)) > 0 {
			left = append(left, fmt.Sprintf("%s: %v; finalizers %v, conditions %+v", pod.Name, traces(pod), pod.Finalizers, pod.Status.Conditions))
		}
	}
	return left
}

// traces are what is on a pod of any operation, or of Squall.
func traces(pod *corev1.Pod) (found []string) {
	ours := func(key string) bool {
		return strings.Contains(key, "."+podops.Domain+"/") || strings.Contains(key, "squall") || strings.Contains(key, "chaos")
	}
	for _, keys := range [][]string{slices.Collect(maps.Keys(pod.Labels)), slices.Collect(maps.Keys(pod.Annotations)), pod.Finalizers} {
		for _, key := range keys {
			if key != traffic && ours(key) {
				found = append(found, key)
			}
		}
	}
	slices.Sort(found)
	return found
}
