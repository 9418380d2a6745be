package v1beta1

import (
	"encoding/json"
	"testing"
)

// rule 7
func TestHash(t *testing.T) {
	const original = `{"count": 1, "level": "pod", "selector": {"app": "shop", "tier": "web"}, "network": {"drop": 10}}`
	for _, c := range []struct {
		name, spec string
		same       bool
	}{
		{"the same", original, true},
		{"keys in another order", `{"network": {"drop": 10}, "selector": {"tier": "web", "app": "shop"}, "level": "pod", "count": 1}`, true},
		{"an absent field given as null", `{"count": 1, "level": "pod", "selector": {"app": "shop", "tier": "web"}, "network": {"drop": 10, "hosts": null}, "cpuPressure": null}`, true},
		{"a default left out", `{"count": 1, "selector": {"app": "shop", "tier": "web"}, "network": {"drop": 10}}`, true},
		{"a default given", `{"count": 1, "duration": "60m", "selector": {"app": "shop", "tier": "web"}, "network": {"drop": 10}}`, true},
		{"another duration", `{"count": 1, "duration": "61m", "selector": {"app": "shop", "tier": "web"}, "network": {"drop": 10}}`, false},
		{"another count", `{"count": 2, "level": "pod", "selector": {"app": "shop", "tier": "web"}, "network": {"drop": 10}}`, false},
		{"another parameter", `{"count": 1, "level": "pod", "selector": {"app": "shop", "tier": "web"}, "network": {"drop": 11}}`, false},
		{"another kind", `{"count": 1, "level": "pod", "selector": {"app": "shop", "tier": "web"}, "network": {"drop": 10}, "cpuPressure": {}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, got := hashOf(t, original), hashOf(t, c.spec)
			if (got == want) != c.same {
				t.Errorf("Hash = %s, that of the original is %s, want same = %t", got, want, c.same)
			}
			if len(got) != 64 {
				t.Errorf("Hash = %q, want 64 hexadecimal digits", got)
			}
		})
	}
}

func hashOf(t *testing.T, text string) string {
	t.Helper()
	var spec DisruptionSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return spec.Hash()
}
