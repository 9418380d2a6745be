package chaospod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

const annotationTarget = "chaos.squall.dev/target" // chaos pod: full name of its target

// AllShards is the number that means all shards of a disruption.
const AllShards = -1

// Shard names a part of a disruption's targets. Number AllShards means all of them.
type Shard struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
	Number     int                   `json:"number"`
}

// Selector matches the chaos pods of a disruption's shard, and their cleaners.
func Selector(ref v1beta1.DisruptionRef, shard int) string {
	selector := labels.Set{v1beta1.LabelDisruptionUID: string(ref.UID)}
	if shard != AllShards {
		selector[v1beta1.LabelShard] = strconv.Itoa(shard)
	}
	return selector.String()
}

// OwnerLabels mark an object as part of a disruption.
func OwnerLabels(ref v1beta1.DisruptionRef) map[string]string {
	return map[string]string{
		v1beta1.LabelDisruptionUID:       string(ref.UID),
		v1beta1.LabelDisruptionName:      labelValue(ref.Name),
		v1beta1.LabelDisruptionNamespace: ref.Namespace,
	}
}

// TargetUID is the UID of the target that the chaos pod disrupts.
func TargetUID(pod *corev1.Pod) types.UID { return types.UID(pod.Labels[v1beta1.LabelTargetUID]) }

// TargetName is the name of that target.
func TargetName(pod *corev1.Pod) string {
	if name := pod.Annotations[annotationTarget]; name != "" {
		return name
	}
	return pod.Labels[v1beta1.LabelTarget]
}

// Name is the only name that a chaos pod of this disruption, target and kind can have,
// so that creating it twice creates it once.
func Name(ref v1beta1.DisruptionRef, t v1beta1.InjectionTarget, kind v1beta1.Kind) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(ref.UID), string(t.UID), string(kind)}, "/")))
	readable := strings.Trim(ref.Name[:min(len(ref.Name), 40)], "-.")
	return "chaos-" + strings.ReplaceAll(readable, ".", "-") + "-" + hex.EncodeToString(sum[:])[:12]
}

// labelValue returns name if it fits a label value (63 characters), otherwise its
// beginning and a hash. The full name is in an annotation.
func labelValue(name string) string {
	if len(name) <= 63 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.Trim(name[:50], "-.") + "-" + hex.EncodeToString(sum[:])[:12]
}

// LevelOf is the level of the chaos pod's disruption, from the document of its
// injector; pod if the document has none.
func LevelOf(pod *corev1.Pod) v1beta1.Level {
	for _, container := range pod.Spec.Containers {
		for _, variable := range container.Env {
			var injection struct{ Level v1beta1.Level }
			if variable.Name == v1beta1.InjectionEnv && json.Unmarshal([]byte(variable.Value), &injection) == nil && injection.Level != "" {
				return injection.Level
			}
		}
	}
	return v1beta1.LevelPod
}
