package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/workflows/connect"
	"github.com/squall-chaos/squall/workflows/start"
)

// checkTimeout is the time limit of all checks; each call takes milliseconds.
const checkTimeout = 10 * time.Second

// dial connects to Temporal and checks that it has what workflows need. While Temporal does
// not answer, dial logs that and waits. extend may be nil.
func dial(ctx context.Context, c Config, extend func(*client.Options), logger *zap.Logger) (temporal client.Client, err error) {
	to := c.Temporal.Connect()
	to.Extend = extend
	err = retryUntilReachable(ctx, logger, func() error {
		if temporal, err = connect.Dial(ctx, to, logger, nil); err != nil {
			return err
		}
		if err = check(ctx, temporal, c.Temporal.Namespace); err != nil {
			temporal.Close()
		}
		return err
	}, func(err error) bool {
		_, away := errors.AsType[*serviceerror.Unavailable](err)
		return away
	})
	return temporal, err
}

// check finds at the start what would otherwise fail in the middle of a disruption. Its
// errors name the fix.
func check(ctx context.Context, temporal client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := checkSearchAttributes(ctx, temporal, namespace); err != nil {
		return err
	}
	return checkMayWork(ctx, temporal, namespace)
}

// checkSearchAttributes names the missing search attributes, and the command that adds
// them.
func checkSearchAttributes(ctx context.Context, temporal client.Client, namespace string) error {
	there, err := temporal.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("list the search attributes of temporal namespace %s: %w", namespace, connect.Advise(err))
	}
	var missing, wrong []string
	for name, kind := range start.SearchAttributes {
		switch has, found := there.CustomAttributes[name]; {
		case !found:
			missing = append(missing, fmt.Sprintf("--name %s --type %s", name, kind))
		case has != kind:
			wrong = append(wrong, fmt.Sprintf("%s is %s and must be %s", name, has, kind))
		}
	}
	sort.Strings(missing)
	sort.Strings(wrong)
	if len(wrong) > 0 {
		return fmt.Errorf("search attributes of temporal namespace %s have another type: %s; "+
			"remove them with temporal operator search-attribute remove, or use another namespace", namespace, strings.Join(wrong, ", "))
	}
	if len(missing) > 0 {
		return fmt.Errorf("temporal namespace %s lacks search attributes; add them with: temporal operator search-attribute create --namespace %s %s",
			namespace, namespace, strings.Join(missing, " "))
	}
	return nil
}

// checkMayWork sends a request that only a worker may send and that has no effect: a
// heartbeat of no activity. If Temporal refuses it for a missing right, it would also
// refuse polls, which the SDK only logs.
func checkMayWork(ctx context.Context, temporal client.Client, namespace string) error {
	_, err := temporal.WorkflowService().RecordActivityTaskHeartbeat(ctx, &workflowservice.RecordActivityTaskHeartbeatRequest{Namespace: namespace})
	if connect.Refused(err) {
		return fmt.Errorf("work in temporal namespace %s: %w", namespace, connect.Advise(err))
	}
	return nil
}
