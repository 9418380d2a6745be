package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// components are what disruptions of the soak need beyond what is installed, in the
// order in which they come; they go in the other one.
var components = []string{
	"pod-replacement/rbac.yaml", "pod-replacement/policy.yaml",
	"pod-operations/rbac.yaml", "pod-operations/protection.yaml", "pod-operations/policy.yaml",
	"pod-ops-driver/rbac.yaml", "pod-ops-driver/installed.yaml", "pod-ops-driver/policy.yaml",
}

// allow installs the components that replace pods and take part in operations on
// them, and returns how to take them out again. It waits until the bridge is the driver
// of these operations.
func (c *cluster) allow(ctx context.Context) (remove func(context.Context) error, err error) {
	var undo []func(context.Context) error
	remove = func(ctx context.Context) (err error) {
		for i := range undo {
			err = errors.Join(err, undo[len(undo)-1-i](ctx))
		}
		return err
	}
	const directory = "deploy/components/"
	for _, file := range components {
		if err := c.kubectl(ctx, "create", "-f", directory+file); err != nil {
			return nil, errors.Join(err, remove(ctx))
		}
		undo = append(undo, func(ctx context.Context) error { return c.kubectl(ctx, "delete", "-f", directory+file) })
	}
	bridge := func(ctx context.Context, verb string, args ...string) error {
		resource := []string{"deployment/squall-crdbridge", "-n", systemNamespace}
		return c.kubectl(ctx, slices.Concat(strings.Fields(verb), resource, args)...)
	}
	if err := bridge(ctx, "patch", "--patch-file", directory+"pod-ops-driver/crdbridge.yaml"); err != nil {
		return nil, errors.Join(err, remove(ctx))
	}
	undo = append(undo, func(ctx context.Context) error { return bridge(ctx, "set env", "SQUALL_POD_OPS_DRIVER-") })
	if err := bridge(ctx, "rollout status", "--timeout=120s"); err != nil {
		return nil, errors.Join(err, remove(ctx))
	}
	return remove, nil
}

func (c *cluster) kubectl(ctx context.Context, args ...string) error {
	_, err := c.run(ctx, filepath.Join(c.dev, "bin/kubectl"), append(args, "--kubeconfig", filepath.Join(c.dev, "kubeconfig"))...)
	return err
}
