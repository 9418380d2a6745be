//go:build linux

package network

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// service returns parameters that name one service.
func service(params v1beta1.NetworkDisruption) v1beta1.NetworkDisruption {
	params.Services = []v1beta1.NetworkService{{Name: "db", Namespace: "shop"}}
	return params
}

// resolvesTo replaces the file with the hosts of services, as the kubelet does.
func (w *world) resolvesTo(t *testing.T, text string) {
	t.Helper()
	if w.injection.ResolvedHosts == "" {
		w.injection.ResolvedHosts = filepath.Join(t.TempDir(), "resolved-hosts")
	}
	fresh := w.injection.ResolvedHosts + ".new"
	must(t, os.WriteFile(fresh, []byte(text), 0o644))
	must(t, os.Rename(fresh, w.injection.ResolvedHosts))
}

func hostOf(address string, port int) string {
	return fmt.Sprintf(`[{"host":%q,"port":%d,"protocol":"udp"}]`, address, port)
}

// eventuallyLost waits until all datagrams to an address are lost, or none.
func (w *world) eventuallyLost(t *testing.T, address string, all bool) {
	t.Helper()
	want := map[bool]int{true: 20, false: 0}[all]
	testcontainer.Eventually(t, fmt.Sprintf("%d of 20 to %s are lost", want, address), func() error {
		if got := lost(t, w.out(address, 7000, 20)); got != want {
			return fmt.Errorf("%d of 20 lost", got)
		}
		return nil
	})
}

func TestAServiceIsFollowedWhileItIsDisturbed(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		w.resolvesTo(t, hostOf(hostIPv4, 7000))
		i := w.injector(t, service(v1beta1.NetworkDisruption{Drop: 100}), try)
		i.lookEvery, i.retryEvery = 10*time.Millisecond, 10*time.Millisecond
		must(t, i.Inject(context.Background()))
		for address, want := range map[string]int{hostIPv4: 50, otherIPv4: 0} {
			if got := lost(t, w.out(address, 7000, 50)); got != want {
				t.Errorf("%s: %d of 50 lost, want %d", address, got, want)
			}
		}
		if got := lost(t, w.out(hostIPv4, 7001, 50)); got != 0 {
			t.Errorf("another port: %d of 50 lost, want 0", got)
		}

		w.resolvesTo(t, hostOf(otherIPv4, 7000))
		w.eventuallyLost(t, otherIPv4, true)
		w.eventuallyLost(t, hostIPv4, false)

		w.resolvesTo(t, "[]") // no pod is ready: nothing is disrupted, instead of everything
		w.eventuallyLost(t, otherIPv4, false)
		w.eventuallyLost(t, hostIPv4, false)

		w.resolvesTo(t, hostOf(hostIPv4, 7000))
		w.eventuallyLost(t, hostIPv4, true)
		clean(t, i)
	})
}

func TestHostsThatCannotBeReadLaterChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.resolvesTo(t, hostOf(hostIPv4, 7000))
	i := w.inject(t, service(v1beta1.NetworkDisruption{Drop: 100}))
	w.resolvesTo(t, `[{"host":"10.9.0.11","nobody":"knows"}]`)
	if err := i.followHosts(); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("followHosts() = %v, want the unknown field", err)
	}
	if got := lost(t, w.out(hostIPv4, 7000, 50)); got != 50 {
		t.Errorf("%d of 50 lost, want all as before", got)
	}
	clean(t, i)
}

func TestAServiceWithoutItsHostsChangesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*testing.T, *world)
		want    string
	}{
		"no file was named":     {func(*testing.T, *world) {}, "another version"},
		"the file is not there": {func(_ *testing.T, w *world) { w.injection.ResolvedHosts = "/nowhere/hosts" }, "/nowhere/hosts"},
		"the file is no list":   {func(t *testing.T, w *world) { w.resolvesTo(t, "{}") }, "want a JSON list"},
		"it names a name":       {func(t *testing.T, w *world) { w.resolvesTo(t, hostOf("db", 1)) }, "services and cloud[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			test.prepare(t, w)
			before := state(t, w.target)
			i := w.injector(t, service(v1beta1.NetworkDisruption{Drop: 100}))
			err := i.Inject(context.Background())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("Inject() = %v, want %q and that nothing was changed", err, test.want)
			}
			if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
				t.Errorf("after the error (-before +after):\n%s", diff)
			}
			clean(t, i)
		})
	}
}
