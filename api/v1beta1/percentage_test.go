package v1beta1

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPercentage(t *testing.T) {
	for document, want := range map[string]int{
		`"76%"`: 76, `"76"`: 76, `76`: 76, `" 5% "`: 5, `"100%"`: 100, `100`: 100, `1`: 1, `"007%"`: 7,
		`"0%"`: 0, `0`: 0, `"101%"`: 0, `101`: 0, `-5`: 0, `"-5%"`: 0, `"+5%"`: 0, `""`: 0, `"%"`: 0, `"all"`: 0, `"12.5%"`: 0, `"50%%"`: 0,
	} {
		var p Percentage
		if err := json.Unmarshal([]byte(document), &p); err != nil {
			t.Errorf("%s: %v", document, err)
			continue
		}
		got, err := p.Value()
		if got != want || (err != nil) != (want == 0) || err != nil && !strings.Contains(err.Error(), `"1%" to "100%"`) {
			t.Errorf("%s is %d, %v; want %d", document, got, err, want)
		}
	}
	for _, document := range []string{`12.5`, `true`, `{}`} {
		var p Percentage
		if err := json.Unmarshal([]byte(document), &p); err == nil || !strings.Contains(err.Error(), document) {
			t.Errorf("%s: %v, want it named", document, err)
		}
	}
	if got := (Percentage{" 5 "}).String(); got != "5%" {
		t.Errorf("String() = %q, want 5%%", got)
	}
}
