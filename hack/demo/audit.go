package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

//go:embed audit.yaml
var auditPod string

// nothingLeft counts what Squall keeps in the cluster, and lets every node look
// for marks of injections.
func (s *story) nothingLeft(ctx context.Context) error {
	s.screen.chapter("7. Nothing is left")
	for _, kind := range []string{"pods", "configmaps"} {
		left := podList{}
		if err := s.get(ctx, &left, "-n", chaosNamespace, kind, "-l", "chaos.squall.dev/disruption-namespace="+namespace); err != nil {
			return err
		}
		s.screen.check(len(left.Items) == 0, "%d %s of these disruptions in %s", len(left.Items), kind, chaosNamespace)
	}
	nodes := podList{}
	if err := s.get(ctx, &nodes, "nodes"); err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if err := s.audit(ctx, node.Metadata.Name); err != nil {
			return err
		}
	}
	return nil
}

// audit runs the injector's own audit on a node, in a pod that is gone afterwards.
func (s *story) audit(ctx context.Context, node string) error {
	settings, err := s.run(ctx, "-n", "squall-system", "get", "deployment", "squall-worker", "-o", "jsonpath={.spec.template.spec.containers[0].envFrom[0].configMapRef.name}")
	if err != nil {
		return err
	}
	image, err := s.run(ctx, "-n", "squall-system", "get", "configmap", settings, "-o", "jsonpath={.data.SQUALL_INJECTOR_IMAGE}")
	if err != nil {
		return err
	}
	name := "audit-" + node
	document := strings.NewReplacer("NAME", name, "NODE", node, "IMAGE", image).Replace(auditPod)
	if _, err := s.feed(ctx, document, "-n", chaosNamespace, "replace", "--force", "--grace-period=0", "-f", "-"); err != nil {
		return err
	}
	defer s.run(context.WithoutCancel(ctx), "-n", chaosNamespace, "delete", "pod", name, "--wait=false", "--grace-period=0", "--force")
	if _, err := s.run(ctx, "-n", chaosNamespace, "wait", "pod/"+name, "--for=jsonpath={.status.containerStatuses[0].state.terminated.reason}", "--timeout=60s"); err != nil {
		return err
	}
	p := pod{}
	if err := s.get(ctx, &p, "-n", chaosNamespace, "pod", name); err != nil {
		return err
	}
	output, err := s.run(ctx, "-n", chaosNamespace, "logs", name)
	if err != nil {
		return err
	}
	if p.Status.ContainerStatuses[0].State.Terminated == nil {
		return fmt.Errorf("pod %s has not ended", name)
	}
	return s.judge(node, output)
}

// judge shows the marks of this story's disruptions in a node's audit. A shared
// cluster may carry marks of other disruptions.
func (s *story) judge(node, output string) error {
	report := struct {
		Marks []struct {
			Object     string
			Disruption struct{ UID string }
		}
		Error string
	}{}
	if err := json.Unmarshal([]byte(output), &report); err != nil {
		return fmt.Errorf("audit of %s said %q: %w", node, output, err)
	}
	var ours []string
	for _, mark := range report.Marks {
		if slices.Contains(s.uids, mark.Disruption.UID) {
			ours = append(ours, mark.Object)
		}
	}
	s.screen.check(len(ours) == 0 && report.Error == "", "%s was searched for marks of injections and has none of these disruptions", node)
	s.screen.quote(strings.Join(append(ours, report.Error), "\n"))
	if others := len(report.Marks) - len(ours); others > 0 {
		s.screen.logf("  (and %d marks of other disruptions)", others)
	}
	return nil
}
