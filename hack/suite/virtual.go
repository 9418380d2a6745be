package main

import (
	"context"
	"strings"
)

// kindsInVirtual are the tests of the kinds, and those that end a node.
var kindsInVirtual = []string{
	"NodeFailureEndsTheNode", "NodeFailureEndsWithoutTheNode", "NodeLevel", "PodReplacement", "Components", "NetworkDropOfOneContainer",
	"NetworkDropIsFeltAndTakenBack", "NetworkDelayIsFeltAndTakenBack", "CPUPressureIsFeltAndTakenBack", "MemoryPressureIsFeltAndTakenBack",
	"DiskPressureIsFeltAndTakenBack", "DiskFailureIsFeltAndTakenBack", "ContainerFailureRestartsAndLeavesNothing",
	"DNSDisruptionIsFeltAndTakenBack", "GRPCIsFeltAndTakenBack", "BandwidthLimitIsFeltAndTakenBack", "ContainersThatRestartAreDisturbedAgain",
}

// virtualNode adds a node that is a virtual machine, and tests with all targets on it.
func (s *suite) virtualNode(ctx context.Context, c *counts) error {
	if err := s.program("./devcluster", "up", "--nodes", "3", "--virtual", "3")(ctx, nil); err != nil {
		return err
	}
	if err := s.program("./devcluster", "images", "../bin/injector.tar", "../bin/probe.tar")(ctx, nil); err != nil {
		return err
	}
	env, err := s.onCluster()
	if err != nil {
		return err
	}
	return s.goTest(ctx, c, s.root, append(env, "SQUALL_E2E_NODE=squall-node3", "SQUALL_TEST_VIRTUAL=1"),
		"-tags", "e2e", "-count=1", "-parallel", "2", "-timeout", "50m", "-run", "^Test("+strings.Join(kindsInVirtual, "|")+")$", "./test/e2e")
}
