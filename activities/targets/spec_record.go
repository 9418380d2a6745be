package targets

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// keyRanges is the key of the spec's record that holds the address ranges of clouds.
const keyRanges = "ranges"

// KeyRun is the key of the spec's record that holds the run which stored it.
const KeyRun = "run"

// StoreSpec stores the disruption as it is now under its UID, with the annotations that
// policies judge and the address ranges of the clouds that it names. If a record
// exists, StoreSpec keeps it, and firstRun is the run that wrote it.
func (s *Store) StoreSpec(ctx context.Context, d *v1beta1.Disruption, run string, ranges []v1beta1.NetworkHost) (firstRun string, err error) {
	stored := v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: d.Name, UID: d.UID, Generation: d.Generation, CreationTimestamp: d.CreationTimestamp,
		Annotations: v1beta1.JudgedAnnotations(d),
	}, Spec: d.Spec}
	document, err := json.Marshal(stored)
	if err != nil {
		return "", err
	}
	record := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: contract.RecordName(d.UID), Labels: chaospod.OwnerLabels(d.Ref())},
		Data:       map[string]string{keyDisruption: string(document), KeyRun: run},
	}
	record.Labels[labelRecord] = recordSpec
	if len(ranges) > 0 {
		document, err := json.Marshal(ranges)
		if err != nil {
			return "", err
		}
		record.Data[keyRanges] = string(document)
	}
	_, err = s.Kube.CoreV1().ConfigMaps(s.Namespace).Create(ctx, record, metav1.CreateOptions{})
	if err == nil {
		s.specs.Add(d.UID, &stored, len(document))
	}
	if !apierrors.IsAlreadyExists(err) {
		return run, err
	}
	kept, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Get(ctx, record.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return kept.Data[KeyRun], nil
}

// LoadSpec returns the disruption as it was when it began, whatever its spec is now
// (rule 8). The result is cached, so the caller must not change it.
func (s *Store) LoadSpec(ctx context.Context, ref v1beta1.DisruptionRef) (*v1beta1.Disruption, error) {
	if known, found := s.specs.Get(ref.UID); found {
		return known, nil
	}
	record, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Get(ctx, contract.RecordName(ref.UID), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the record of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	d := &v1beta1.Disruption{}
	if err := json.Unmarshal([]byte(record.Data[keyDisruption]), d); err != nil {
		return nil, fmt.Errorf("decode record %s: %w", record.Name, err)
	}
	s.specs.Add(ref.UID, d, len(record.Data[keyDisruption]))
	return d, nil
}

// LoadRanges returns the address ranges of the clouds that the disruption names, as
// they were when it began; none if it names none.
func (s *Store) LoadRanges(ctx context.Context, ref v1beta1.DisruptionRef) ([]v1beta1.NetworkHost, error) {
	record, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Get(ctx, contract.RecordName(ref.UID), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the record of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	document, found := record.Data[keyRanges]
	if !found {
		return nil, nil
	}
	var ranges []v1beta1.NetworkHost
	if err := json.Unmarshal([]byte(document), &ranges); err != nil {
		return nil, fmt.Errorf("decode the ranges in record %s: %w", record.Name, err)
	}
	return ranges, nil
}

// DeleteRecords deletes every record of the disruption. A disruption without records is
// no error.
func (s *Store) DeleteRecords(ctx context.Context, ref v1beta1.DisruptionRef) error {
	selector := labels.Set{v1beta1.LabelDisruptionUID: string(ref.UID)}
	err := s.Kube.CoreV1().ConfigMaps(s.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return fmt.Errorf("delete the records of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return nil
}
