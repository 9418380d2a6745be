package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/start"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// The worker's start fails if the real Temporal lacks something, and the error names the
// fix.
func TestWorkerNamesWhatTemporalLacks(t *testing.T) {
	server := temporalserver.New(t).Start()
	operator := server.Dial("default")
	try := func(namespace string) error {
		c, err := dial(t.Context(), Config{Temporal: settings.Temporal{Address: server.Address, Namespace: namespace}}, nil, zap.NewNop())
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := try("default"); err != nil {
		t.Fatalf("with everything in place: %v", err)
	}
	t.Run("the namespace", func(t *testing.T) {
		wantParts(t, try("nowhere"), "nowhere", "temporal operator namespace create --namespace nowhere", "SQUALL_TEMPORAL_NAMESPACE")
	})

	namespace(t, operator, "bare")
	t.Run("search attributes", func(t *testing.T) {
		wantParts(t, try("bare"), "search-attribute create --namespace bare", "--name SquallEnding --type Keyword", "--name SquallVerdict --type Keyword",
			"--name SquallKinds --type KeywordList", "--name SquallNamespace --type Keyword", "--name SquallPhase --type Keyword",
			"--name SquallStuck --type Bool", "--name SquallTargets --type Int")
	})
	add := func(attributes map[string]enums.IndexedValueType) {
		t.Helper()
		_, err := operator.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{Namespace: "bare", SearchAttributes: attributes})
		if err != nil {
			t.Fatal(err)
		}
	}
	add(map[string]enums.IndexedValueType{"SquallTargets": enums.INDEXED_VALUE_TYPE_KEYWORD})
	t.Run("one of the right type", func(t *testing.T) {
		eventually(t, "the server knows the attribute", func() bool { return strings.Contains(fmt.Sprint(try("bare")), "another type") })
		wantParts(t, try("bare"), "SquallTargets is Keyword and must be Int", "search-attribute remove")
	})
}

// If Temporal refuses a request for a missing right, the error names the credentials to
// check. A small fake server acts as one with an authorizer; the test above has the other
// answers of the real one.
func TestWorkerReportsMissingTemporalRights(t *testing.T) {
	for name, denies := range map[string]string{
		"a wrong API key":      "/GetSystemInfo",
		"no right to read":     "/ListSearchAttributes",
		"a right to read only": "/RecordActivityTaskHeartbeat",
	} {
		for _, code := range []codes.Code{codes.PermissionDenied, codes.Unauthenticated} {
			t.Run(name+", "+code.String(), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := dial(ctx, Config{Temporal: settings.Temporal{Address: denying(t, denies, code), Namespace: "prod"}}, nil, zap.NewNop())
				wantParts(t, err, "Request unauthorized", "namespace prod", "SQUALL_TEMPORAL_API_KEY", "SQUALL_TEMPORAL_TLS_CERT", "squall-temporal")
			})
		}
	}
}

// The cluster's own authorizer decides, first for a service account without rights and then
// for one with those of deploy/rbac.yaml.
func TestWorkerNamesMissingClusterRights(t *testing.T) {
	config := apiserver.Start(t)
	admin := clientOf(t, config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:squall-system:squall-worker", Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	worker := clientOf(t, config)
	settings := Config{ChaosNamespace: "squall-chaos"}
	ask := func() error { return awaitRights(t.Context(), worker, settings, zap.NewNop()) }
	wantParts(t, ask(), "list pods everywhere", "create pods in squall-chaos", "update disruptions/status everywhere", "get pods/log in squall-chaos",
		"deploy/rbac.yaml", "kubectl apply -k deploy")
	install(t, admin)
	eventually(t, "the rights of deploy/rbac.yaml are enough", func() bool { return ask() == nil })
	wantRightsOfProbes(t, config)
	settings.NamespaceOptIn = policy.SwitchEnforce
	wantParts(t, ask(), "get namespaces everywhere", "namespace-opt-in=enforce needs deploy/components/namespace-opt-in-enforce")
	settings.NamespaceOptIn = policy.SwitchWarn
	err := admin.RbacV1().Roles("squall-chaos").Delete(t.Context(), "squall-worker", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the right to make pods is missed", func() bool {
		err := ask()
		return err != nil && strings.Contains(err.Error(), "create pods in squall-chaos") && !strings.Contains(err.Error(), "everywhere")
	})
}

// wantRightsOfProbes wants a worker that only asks probes to need the rights of
// squall-probes and no others.
func wantRightsOfProbes(t *testing.T, config *rest.Config) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = "system:serviceaccount:squall-system:squall-probes"
	probes := clientOf(t, config)
	ask := func(queues string) error {
		return awaitRights(t.Context(), probes, Config{ChaosNamespace: "squall-chaos", NamespaceOptIn: policy.SwitchEnforce, TaskQueues: queues}, zap.NewNop())
	}
	eventually(t, "the rights of squall-probes are enough", func() bool { return ask(queuesProbes) == nil })
	wantParts(t, ask(queuesDisruptions), "create pods in squall-chaos", "update disruptions/status everywhere", "service account squall-worker")
}

// rule T8: a worker that starts while Temporal is unreachable waits for it.
func TestWorkerWaitsForTemporal(t *testing.T) {
	server := temporalserver.New(t)
	logged, lines := observer.New(zap.WarnLevel)
	done := make(chan error, 1)
	go func() {
		c, err := dial(t.Context(), Config{Temporal: settings.Temporal{Address: server.Address, Namespace: "default"}}, nil, zap.New(logged))
		if err == nil {
			c.Close()
		}
		done <- err
	}()
	eventually(t, "it says so", func() bool { return lines.Len() > 0 })
	if text := fmt.Sprint(lines.All()[0].ContextMap()["error"]); !strings.Contains(text, server.Address) || !strings.Contains(text, "nothing listens there") {
		t.Errorf("it logs %q, want the address and what to do", text)
	}
	server.Start()
	if err := <-done; err != nil {
		t.Errorf("when Temporal was there: %v", err)
	}
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// install creates the namespaces and the worker's objects of deploy/rbac.yaml.
func install(t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	content, err := os.ReadFile("../deploy/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"squall-system", "squall-chaos"} {
		_, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, document := range strings.Split(string(content), "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			_, err = kube.RbacV1().ClusterRoles().Create(t.Context(), o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			_, err = kube.RbacV1().ClusterRoleBindings().Create(t.Context(), o, metav1.CreateOptions{})
		case *rbacv1.Role:
			_, err = kube.RbacV1().Roles(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = kube.RbacV1().RoleBindings(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// denying is a fake Temporal that refuses one method and has all search attributes.
func denying(t *testing.T, denied string, code codes.Code) (address string) {
	t.Helper()
	g := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if strings.HasSuffix(info.FullMethod, denied) {
			return nil, status.Error(code, "Request unauthorized.")
		}
		return next(ctx, request)
	}))
	workflowservice.RegisterWorkflowServiceServer(g, workflowservice.UnimplementedWorkflowServiceServer{})
	operatorservice.RegisterOperatorServiceServer(g, complete{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-done })
	return l.Addr().String()
}

type complete struct {
	operatorservice.UnimplementedOperatorServiceServer
}

func (complete) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: start.SearchAttributes}, nil
}

// namespace creates a Temporal namespace without search attributes.
func namespace(t *testing.T, c client.Client, name string) {
	t.Helper()
	_, err := c.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is known", func() bool {
		_, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: name})
		return err == nil
	})
}

func wantParts(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error = %v\nwant %q in it", err, part)
		}
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	patience.Within(t, time.Minute, what, is)
}
