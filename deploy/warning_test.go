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

// warnings are the warnings of the API server for a client.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// contain is true if a warning since the last call has the text.
func (w *warnings) contain(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := strings.Join(w.texts, "\n")
	w.texts = nil
	return strings.Contains(texts, text)
}

// A client that edits a spec gets a warning that the edit has no effect, and one that
// changes labels gets none (rules 9, 10).
func TestEditedSpecIsWarned(t *testing.T) {
	installed(t)
	config := apiserver.Start(t)
	received := &warnings{}
	config.WarningHandler = received
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
		return received.contain("no effect on the disruption")
	}
	// The API server applies a new policy after a moment.
	even := false
	eventually(t, "an edit of the spec is warned about", func() bool { // rule 9
		even = !even
		return patch(fmt.Sprintf(`{"spec":{"dryRun":%t}}`, even))
	})
	if patch(`{"metadata":{"labels":{"team":"a"}}}`) { // rule 10
		t.Error("a change of labels was warned about")
	}
}
