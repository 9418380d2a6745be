package main

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/squall-chaos/squall/hack/cluster"
)

// patience is how long each step of a start may take. A cold start takes about
// ten seconds in all; a busy machine several times that.
const patience = 3 * time.Minute

// settle waits until the cluster is usable: nodes that reported ready after began,
// cluster DNS that answers, Temporal that listens.
func settle(ctx context.Context, s steps, c *cluster.Cluster, began time.Time) error {
	api, err := newAPI(c)
	if err != nil {
		return err
	}
	if err := until(ctx, c, "the API server", api.ready); err != nil {
		return err
	}
	s.logf("API server ready")
	if err := applyDNS(ctx, c); err != nil {
		return err
	}
	nodes := func(ctx context.Context) error { return api.nodesReady(ctx, c.Nodes, began) }
	wait := until
	if c.Virtual > 0 {
		wait = untilVirtual
	}
	if err := wait(ctx, c, "the nodes", nodes); err != nil {
		return err
	}
	if err := api.removeNodesAbove(ctx, c.Nodes); err != nil {
		return err
	}
	s.logf("%d nodes ready", c.Nodes)
	if err := until(ctx, c, "Temporal", temporalAnswers(c)); err != nil {
		return err
	}
	s.logf("Temporal ready")
	if err := until(ctx, c, "cluster DNS", api.dnsAnswers); err != nil {
		return err
	}
	s.logf("cluster DNS answers")
	return nil
}

// until asks again and again until there is no error, or the supervisor is
// dead, or patience is over.
func until(ctx context.Context, c *cluster.Cluster, what string, ask func(context.Context) error) error {
	return untilAtMost(ctx, patience, c, what, ask)
}

func untilVirtual(ctx context.Context, c *cluster.Cluster, what string, ask func(context.Context) error) error {
	return untilAtMost(ctx, virtualPatience, c, what, ask)
}

func untilAtMost(ctx context.Context, patience time.Duration, c *cluster.Cluster, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; see the logs in %s", what, err, c.Path("log"))
		case <-time.After(100 * time.Millisecond):
		}
		if c.Supervisor() == 0 {
			return fmt.Errorf("the supervisor died during the wait for %s; see %s", what, c.Path("log", "supervisor.log"))
		}
	}
}

// temporalAnswers asks for the namespace by way of the web interface, so that
// both are known to work.
func temporalAnswers(c *cluster.Cluster) func(context.Context) error {
	url := fmt.Sprintf("http://127.0.0.1:%d/api/v1/namespaces/default", c.UIPort)
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, response.Status)
		}
		return nil
	}
}

// applyDNS installs cluster DNS or brings it up to date.
func applyDNS(ctx context.Context, c *cluster.Cluster) error {
	cmd := exec.CommandContext(ctx, c.Program("kubernetes", "kubectl"), "--kubeconfig", c.Path("kubeconfig"),
		"apply", "--server-side", "--force-conflicts", "--field-manager=devcluster", "-f", "-")
	cmd.Stdin = strings.NewReader(dnsManifest(c.DNSAddr().String(), c.Nodes))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("install cluster DNS: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
