package policy

import (
	"strings"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestTooMany(t *testing.T) {
	percent := func(n int) *int { return &n }
	of := Population{Namespace: 10, Cluster: 100, Nodes: 6}
	for _, test := range []struct {
		name   string
		wanted int
		of     Population
		unsafe *v1beta1.UnsafeMode
		level  v1beta1.Level
		text   string // empty for nothing
	}{
		{"as much as may be", 8, of, nil, "", ""},
		{"one more", 9, of, nil, "", "9 of the 10 pods of namespace shop are more than 80 %"},
		{"the only pod", 1, Population{Namespace: 1, Cluster: 100}, nil, "", "1 of the 1 pods of namespace shop"},
		{"none", 0, Population{}, nil, "", ""},
		{"most of the cluster", 67, Population{Namespace: 100, Cluster: 100}, nil, "", "67 of the 100 pods of the cluster are more than 66 %"},
		{"two thirds of the cluster", 66, Population{Namespace: 100, Cluster: 100}, nil, "", ""},
		{"a count that lags behind", 9, Population{Namespace: 3, Cluster: 3}, nil, "", "9 of the 9 pods"},
		{"of the nodes as many as may be", 3, of, nil, v1beta1.LevelNode, ""},
		{"of the nodes more", 4, of, nil, v1beta1.LevelNode, "4 of the 6 nodes are more than 66 %"},
		{"a limit of its own", 9, of, &v1beta1.UnsafeMode{Config: &v1beta1.UnsafeModeConfig{CountTooLarge: &v1beta1.CountTooLarge{NamespaceThreshold: percent(90)}}}, "", ""},
		{"a lower limit of its own", 3, of, &v1beta1.UnsafeMode{Config: &v1beta1.UnsafeModeConfig{CountTooLarge: &v1beta1.CountTooLarge{ClusterThreshold: percent(2)}}}, "", "3 of the 100 pods of the cluster are more than 2 %"},
		{"set aside", 10, of, &v1beta1.UnsafeMode{DisableCountTooLarge: true}, "", ""},
		{"all set aside", 10, of, &v1beta1.UnsafeMode{DisableAll: true}, "", ""},
		{"something else set aside", 10, of, &v1beta1.UnsafeMode{DisableNeitherHostNorPort: true}, "", "10 of the 10 pods"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := disruption()
			d.Spec.UnsafeMode = test.unsafe
			if test.level != "" {
				d.Spec.Level = test.level
			}
			got := DefaultThresholds.TooMany(d, test.wanted, test.of)
			if (got == "") != (test.text == "") || !strings.Contains(got, test.text) {
				t.Errorf("text %q, want %q", got, test.text)
			}
		})
	}
}
