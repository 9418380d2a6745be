package vm

import (
	"slices"
	"testing"
)

func TestInOrder(t *testing.T) {
	needs := map[string][]string{"a": {"b", "c-d"}, "b": {"c_d"}, "loop": nil}
	files := map[string]string{"a": "a", "b": "b", "c_d": "c_d", "loop": "loop"}
	got, err := inOrder([]string{"a", "built-in", "loop", "b"}, files, func(file string) ([]string, error) { return needs[file], nil })
	if want := []string{"c_d", "b", "a", "loop"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("inOrder() = %q, %v, want %q", got, err, want)
	}
}

func TestNeedsOf(t *testing.T) {
	info := "license=GPL\x00depends=nf_conntrack,x_tables\x00softdep=pre: crc32c_generic nf-defrag post: other\x00name=x\x00"
	want := []string{"nf_conntrack", "x_tables", "crc32c_generic", "nf-defrag"}
	if got := needsOf([]byte(info)); !slices.Equal(got, want) {
		t.Errorf("needsOf() = %q, want %q", got, want)
	}
}
