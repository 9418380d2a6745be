package deploy

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/squall-chaos/squall/test/apiserver"
)

// warnings are what the API server tells a client besides its answer.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// heard says whether the words came since the last question.
func (w *warnings) heard(words string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := strings.Join(w.texts, "\n")
	w.texts = nil
	return strings.Contains(texts, words)
}

// A client that edits a spec is told at once that this has no effect, and one
// that changes labels is not (rules 9, 10).
func TestEditedSpecIsWarned(t *testing.T) {
	installed(t)
	config := apiserver.Start(t)
	heard := &warnings{}
	config.WarningHandler = heard
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	disruptions := client.Resource(schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: "disruptions"}).Namespace("default")
	_, err = disruptions.Create(t.Context(), aDisruption("edited"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(body string) bool {
		t.Helper()
		if _, err := disruptions.Patch(t.Context(), "edited", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatalf("the edit was refused: %v", err)
		}
		return heard.heard("no effect on the disruption")
	}
	// A new policy takes the API server a moment.
	even := false
	eventually(t, "an edit of the spec is warned about", func() bool { // rule 9
		even = !even
		return patch(fmt.Sprintf(`{"spec":{"dryRun":%t}}`, even))
	})
	if patch(`{"metadata":{"labels":{"team":"a"}}}`) { // rule 10
		t.Error("a change of labels was warned about")
	}
}
