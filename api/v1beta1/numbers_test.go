package v1beta1

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPercentNumber(t *testing.T) {
	for document, want := range map[string]PercentNumber{`40`: 40, `"40%"`: 40, `"40"`: 40, `" 7% "`: 7, `0`: 0, `"0%"`: 0, `101`: 101} {
		var p PercentNumber
		if err := json.Unmarshal([]byte(document), &p); err != nil || p != want {
			t.Errorf("%s is %d, %v; want %d", document, p, err, want)
		}
	}
	for _, document := range []string{`12.5`, `"12.5%"`, `"all"`, `""`, `"%"`, `"50%%"`, `true`, `{}`} {
		var p PercentNumber
		if err := json.Unmarshal([]byte(document), &p); err == nil || !strings.Contains(err.Error(), document) {
			t.Errorf("%s: %v, want it named", document, err)
		}
	}
	if written, err := json.Marshal(PercentNumber(40)); err != nil || string(written) != "40" {
		t.Errorf("40 is written as %s, %v; want the number", written, err)
	}
}

func TestMilliseconds(t *testing.T) {
	for document, want := range map[string]Milliseconds{`200`: 200, `"200ms"`: 200, `"1.5s"`: 1500, `"1m"`: 60000, `"0.5s"`: 500, `0`: 0} {
		var m Milliseconds
		if err := json.Unmarshal([]byte(document), &m); err != nil || m != want {
			t.Errorf("%s is %d, %v; want %d", document, m, err, want)
		}
	}
	for _, document := range []string{`"200"`, `"0s"`, `"0.5ms"`, `1.5`, `"soon"`, `""`, `true`} {
		var m Milliseconds
		if err := json.Unmarshal([]byte(document), &m); err == nil || !strings.Contains(err.Error(), document) {
			t.Errorf("%s: %v, want it named", document, err)
		}
	}
}

// The sum of the shares of an endpoint counts those that are strings, which the rule of the
// CRD cannot afford to read.
func TestSharesOfAnEndpointAreSummedAsStrings(t *testing.T) {
	d, err := Decode([]byte(`{"apiVersion": "chaos.squall.dev/v1beta1", "kind": "Disruption", "metadata": {"name": "a", "namespace": "b"},
		"spec": {"selector": {"a": "b"}, "count": 1, "grpc": {"port": 1, "endpoints": [
			{"endpoint": "/a/b", "error": "OK", "queryPercent": "60%"}, {"endpoint": "/a/b", "override": "{}", "queryPercent": "41"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	d.Default()
	if err := d.Validate().ToAggregate(); err == nil || !strings.Contains(err.Error(), "lower a queryPercent") {
		t.Errorf("60%% and 41%%: %v, want a refusal", err)
	}
}
