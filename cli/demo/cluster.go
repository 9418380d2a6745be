package demo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

const (
	// Namespace has all of the shop.
	Namespace = "squall-shop"

	partOf       = "app.kubernetes.io/part-of"
	ours         = "squall-demo"
	builtImage   = "squall.local/cli:dev" // in the manifest, of this checkout
	betweenLooks = 500 * time.Millisecond
)

// Shop is the shop in a cluster.
type Shop struct {
	Kube kubernetes.Interface
	// Manifest is deploy/samples/demo/shop.yaml, and Image runs its programs.
	Manifest []byte
	Image    string
}

// Install applies the manifest. A namespace of the same name that is not of an earlier
// demo is left alone, and is an error.
func (s Shop) Install(ctx context.Context) error {
	there, err := s.Kube.CoreV1().Namespaces().Get(ctx, Namespace, metav1.GetOptions{})
	if err == nil && there.Labels[partOf] != ours {
		return fmt.Errorf("namespace %s is not of a demo (no label %s=%s): delete or rename it", Namespace, partOf, ours)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for namespace %s: %w", Namespace, err)
	}
	manifest := bytes.ReplaceAll(s.Manifest, []byte(builtImage), []byte(s.Image))
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		if err := s.apply(ctx, document); err != nil {
			return err
		}
	}
	return nil
}

// collections are the paths below which the objects of the manifest are.
var collections = map[string]string{
	"Namespace":  "/api/v1/namespaces",
	"Service":    "/api/v1/namespaces/" + Namespace + "/services",
	"Deployment": "/apis/apps/v1/namespaces/" + Namespace + "/deployments",
}

func (s Shop) apply(ctx context.Context, document []byte) error {
	var object metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(document, &object); err != nil {
		return fmt.Errorf("read the manifest of the shop: %w", err)
	}
	err := s.Kube.Discovery().RESTClient().Patch(types.ApplyPatchType).AbsPath(collections[object.Kind], object.Name).
		Param("fieldManager", ours).Param("force", "true").Body(document).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("create %s %s: %w", strings.ToLower(object.Kind), object.Name, err)
	}
	return nil
}

// AwaitReady waits until all of the shop runs. An error of ctx names the part that does
// not.
func (s Shop) AwaitReady(ctx context.Context) error {
	for {
		waiting, err := s.notReady(ctx)
		if err != nil || waiting == "" {
			return err
		}
		if pause(ctx) != nil {
			return fmt.Errorf("the shop did not start: %s; kubectl -n %s describe pods shows why", waiting, Namespace)
		}
	}
}

func (s Shop) notReady(ctx context.Context) (string, error) {
	deployments, err := s.Kube.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("look at the shop: %w", err)
	}
	for _, d := range deployments.Items {
		if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas < *d.Spec.Replicas || d.Status.Replicas > *d.Spec.Replicas {
			return fmt.Sprintf("%d of %d pods of %s are available", d.Status.AvailableReplicas, *d.Spec.Replicas, d.Name), nil
		}
	}
	return "", nil
}

// AwaitSteady waits until the client has had no error for three seconds: names and
// Services take a moment after the pods are ready.
func (s Shop) AwaitSteady(ctx context.Context) error {
	log, err := s.log(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	lines := bufio.NewScanner(log)
	for steady := 0; steady < 3; {
		second, err := next(lines)
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
		steady++
		if second.Errors > 0 || second.Requests == 0 {
			steady = 0
		}
	}
	return nil
}

// Measure returns the client's measurements of the next seconds.
func (s Shop) Measure(ctx context.Context, seconds int) (Phase, error) {
	log, err := s.log(ctx)
	if err != nil {
		return Phase{}, err
	}
	defer func() { _ = log.Close() }()
	measured, err := read(log, seconds)
	return Sum(measured), err
}

// log follows the output of the client from now on.
func (s Shop) log(ctx context.Context) (io.ReadCloser, error) {
	pods, err := s.Kube.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=client"})
	if err != nil {
		return nil, fmt.Errorf("look for the client of the shop: %w", err)
	}
	if len(pods.Items) == 0 {
		return nil, fmt.Errorf("the client of the shop is gone: no pod in namespace %s has the label app=client", Namespace)
	}
	since := metav1.Now()
	log, err := s.Kube.CoreV1().Pods(Namespace).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{Follow: true, SinceTime: &since}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the log of the client: %w", err)
	}
	return log, nil
}

// read decodes lines of the client.
func read(log io.Reader, seconds int) ([]Second, error) {
	var all []Second
	lines := bufio.NewScanner(log)
	for len(all) < seconds {
		second, err := next(lines)
		if err != nil {
			return nil, fmt.Errorf("after %d of %d seconds: %w", len(all), seconds, err)
		}
		all = append(all, second)
	}
	return all, nil
}

func next(lines *bufio.Scanner) (Second, error) {
	if !lines.Scan() {
		return Second{}, fmt.Errorf("the log of the client ended: %w", cmp.Or(lines.Err(), io.EOF))
	}
	var second Second
	if err := json.Unmarshal(lines.Bytes(), &second); err != nil {
		return Second{}, fmt.Errorf("the client printed %q: %w", lines.Text(), err)
	}
	return second, nil
}

// Delete removes the shop and waits until it is gone.
func (s Shop) Delete(ctx context.Context) error {
	err := s.Kube.CoreV1().Namespaces().Delete(ctx, Namespace, metav1.DeleteOptions{})
	for err == nil {
		if _, err = s.Kube.CoreV1().Namespaces().Get(ctx, Namespace, metav1.GetOptions{}); err == nil {
			err = pause(ctx)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("delete namespace %s: %w; kubectl delete namespace %[1]s tries again", Namespace, err)
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(betweenLooks):
		return nil
	}
}

// CLIImage is the image of squall in the same registry and with the same tag as the
// worker's. It is empty for a worker's image with another name.
func CLIImage(worker string) string {
	registry, image := path.Split(worker)
	name, tag, tagged := strings.Cut(image, ":")
	if registry == "" || !tagged || name != "squall" {
		return ""
	}
	return registry + "cli:" + tag
}
