package crdtest

import (
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/squall-chaos/squall/test/neverruns"
)

// A spec that can never run is refused where it is written: by the schema alone,
// without a webhook, and by Validate.
func TestWhatCanNeverRunIsRefusedAtAdmission(t *testing.T) {
	client := disruptions(t)
	for _, spec := range neverruns.Specs() {
		t.Run(spec.Name, func(t *testing.T) {
			m := manifest{spec.Name, spec.Manifest("default"), spec.Refused}
			m.checkBoth(t, client)
		})
	}
}

// Specs close to the refused ones can run.
var almost = []manifest{
	{"limits of a pod", kind("diskPressure: {path: /data, throttling: {readBytesPerSec: 65536, writeBytesPerSec: 65536, readIOPSPerSec: 10, writeIOPSPerSec: 10}}"), ""},
	{"limits of a node", kind("level: node\ndiskPressure: {path: /data, throttling: {readBytesPerSec: 1048576, writeBytesPerSec: 1048576, readIOPSPerSec: 20, writeIOPSPerSec: 20}}"), ""},
	{"limits of 0", kind("level: node\ndiskPressure: {path: /data, throttling: {readBytesPerSec: 0, writeIOPSPerSec: null}}"), ""},
	{"throttling null", kind("level: node\ndiskPressure: {path: /data, throttling: null}"), ""},
	{"paths with blanks around them", kind("level: node\ndiskFailure: {paths: [' /data ', /a..b, /..c]}"), ""},
	{"a path of a pod with two dots", kind("diskFailure: {paths: [/data/../etc]}"), ""},
	{"names of a node", kind("level: node\nnetwork: {drop: 1, hosts: [{host: a, dnsResolver: node}, {host: b}, {host: c, dnsResolver: pod-fallback-node}]}"), ""},
	{"names of a pod", network("hosts: [{host: a, dnsResolver: pod}]"), ""},
	{"answers that name nothing", kind("dns: {records: [{hostname: a, record: {type: MX, value: '0 .'}}, {hostname: b, record: {type: SRV, value: '0 0 0 .'}}]}"), ""},
	{"answers at the limits", dns("MX", "65535 a.example, 00010 _b.example.,\t1\tc"), ""},
	{"a pulse that begins before the end", kind("duration: 1m\nnetwork: {drop: 1}\npulse: {initialDelay: 59s, activeDuration: 1s, dormantDuration: 1s}"), ""},
	{"a delay without a pulse", kind("duration: 1m\nnetwork: {drop: 1}\npulse: {initialDelay: 2m}"), ""},
}

func TestWhatCanRunIsAccepted(t *testing.T) {
	client := disruptions(t)
	for _, m := range almost {
		t.Run(m.name, func(t *testing.T) {
			m.checkBoth(t, client)
		})
	}
}

// checkBoth wants the same judgement of the API server as of Decode and Validate.
func (m manifest) checkBoth(t *testing.T, client dynamic.ResourceInterface) {
	t.Helper()
	_, err := judgeHere(m.object())
	m.check(t, "Decode and Validate", err)
	_, err = judgeThere(t, client, m.object())
	m.check(t, "the API server", err)
}
