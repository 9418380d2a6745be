//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answers are as late as was asked for, and none is lost.
func TestNetworkDelayIsFeltAndTakenBack(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2)
	victim, client := pods[0], pods[1]
	s.label(client, "client")
	before := s.snapshots(pods[:1])
	usual := s.echo(client, victim, 1, 20)

	d := s.injected(s.create("slow", "{selector: {app: target}, count: 1, duration: 5m, network: {delay: 400, delayJitter: 1}}"))
	slow := s.echo(client, victim, 1, 20)
	t.Logf("answers after %.1f ms on average before, %.1f ms during", usual.MeanMilliseconds, slow.MeanMilliseconds)
	// A machine that is busy adds to both; it never takes anything away.
	if slow.MeanMilliseconds < 380 || slow.Received != slow.Sent {
		t.Errorf("%d of %d answers, after %.1f ms on average, want all of them after 400 ms", slow.Received, slow.Sent, slow.MeanMilliseconds)
	}

	s.delete(d)
	s.gone(d)
	eventually(t, func() string {
		if now := s.echo(client, victim, 1, 20); now.MeanMilliseconds >= 200 {
			return fmt.Sprintf("answers come after %.1f ms on average, and nothing is delayed any more", now.MeanMilliseconds)
		}
		return ""
	})
	s.wantSame(before, s.snapshots(pods[:1]))
}

// TestBandwidthLimitIsFeltAndTakenBack: the target sends no more than the limit in
// a time.
func TestBandwidthLimitIsFeltAndTakenBack(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2)
	victim, client := pods[0], pods[1]
	s.label(client, "client")
	before := s.snapshots(pods[:1])
	// Each answer is a frame of at least 50 bytes. The first of a burst may pass at once.
	const limit, frame = 2000, 50

	d := s.injected(s.create("narrow", fmt.Sprintf("{selector: {app: target}, count: 1, duration: 5m, network: {bandwidthLimit: %d}}", limit)))
	began := time.Now()
	narrow := s.echo(client, victim, 20, 30)
	took := time.Since(began)
	rate := float64(narrow.Received*frame) / took.Seconds()
	t.Logf("%d of %d answers in %s: at least %.0f bytes a second", narrow.Received, narrow.Sent, took, rate)
	if rate > 1.5*limit || narrow.Received == 0 {
		t.Errorf("%.0f bytes a second were answered, want some, and not more than %d", rate, limit)
	}

	s.delete(d)
	s.gone(d)
	eventually(t, func() string {
		began := time.Now()
		wide := s.echo(client, victim, 20, 30)
		if rate := float64(wide.Received*frame) / time.Since(began).Seconds(); rate < 4*limit {
			return fmt.Sprintf("%.0f bytes a second are answered, and nothing is limited any more", rate)
		}
		return ""
	})
	s.wantSame(before, s.snapshots(pods[:1]))
}

// TestAServiceOfACloudIsDisturbed: the operator's ConfigMap defines the addresses
// of a cloud's service, here the address of another pod.
func TestAServiceOfACloudIsDisturbed(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(3)
	cloud, other, victim := pods[0], pods[1], pods[2]
	s.label(cloud, "cloud")
	s.label(other, "other")
	maps := s.kube.CoreV1().ConfigMaps(chaosNamespace)
	ranges := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cloud-ranges"}, Data: map[string]string{"aws": fmt.Sprintf(
		`{"syncToken": "1", "createDate": "2026-11-01-00-00-00", "prefixes": [{"ip_prefix": "%s/32", "region": "here", "service": "S3", "network_border_group": "here"}], "ipv6_prefixes": []}`,
		cloud.Status.PodIP)}}
	if _, err := maps.Create(t.Context(), ranges, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := maps.Delete(t.Context(), ranges.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}()
	s.wantLoss(victim, cloud, "before", 0, 5)

	d := s.injected(s.create("cloud", "{selector: {app: target}, count: 1, duration: 5m, network: {drop: 100, cloud: {aws: [{service: S3}]}}}"))
	s.wantLoss(victim, cloud, "to the service", 100, 100)
	s.wantLoss(victim, other, "to anybody else", 0, 5)

	s.delete(d)
	s.gone(d)
	s.wantLoss(victim, cloud, "after", 0, 5)
}

// echoed is a client's report about its datagrams.
type echoed struct {
	Sent, Received   int
	MeanMilliseconds float64
}

// echo sends datagrams from one pod to another by several sockets at once, and
// waits up to ten seconds for each answer.
func (s *space) echo(from, to corev1.Pod, sockets, count int) (result echoed) {
	s.t.Helper()
	err := s.exec(s.t.Context(), &result, s.name, from.Name, "/target", "ping", "--udp", to.Status.PodIP+":9090",
		"--sockets", fmt.Sprint(sockets), "--count", fmt.Sprint(count), "--timeout", "10s")
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}
