package main

import (
	"errors"
	"flag"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/squall-chaos/squall/hack/cluster"
)

func TestReadyNodes(t *testing.T) {
	began := time.Date(2026, 11, 20, 12, 0, 0, 500, time.UTC)
	list := nodeList{}
	add := func(name, kind, status string, heartbeat time.Time) {
		item := struct {
			Metadata struct{ Name string }
			Status   struct {
				Conditions []struct {
					Type, Status      string
					LastHeartbeatTime time.Time
				}
			}
		}{}
		item.Metadata.Name = name
		item.Status.Conditions = append(item.Status.Conditions, struct {
			Type, Status      string
			LastHeartbeatTime time.Time
		}{kind, status, heartbeat})
		list.Items = append(list.Items, item)
	}
	later := began.Add(2 * time.Second).Truncate(time.Second)
	add("fresh", "Ready", "True", later)
	add("before the crash", "Ready", "True", began.Add(-time.Second))
	add("not ready", "Ready", "False", later)
	add("gone", "Ready", "Unknown", later)
	add("other condition", "MemoryPressure", "True", later)
	want := map[string]bool{"fresh": true, "before the crash": false, "not ready": false, "gone": false, "other condition": false}
	if got := list.readyNodes(began); !reflect.DeepEqual(got, want) {
		t.Errorf("readyNodes(%s) = %v, want %v", began, got, want)
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name        string
		args        []string
		least, most int
		rest        []string
		err         error
	}{
		{"nothing", []string{"--dir", "/x"}, 0, 0, nil, nil},
		{"arguments before flags", []string{"a", "--dir=/x", "b"}, 1, 9, []string{"a", "b"}, nil},
		{"too many", []string{"--dir=/x", "a"}, 0, 0, nil, errUsage},
		{"too few", []string{"--dir=/x"}, 1, 1, nil, errUsage},
		{"unknown flag", []string{"--wrong"}, 0, 0, nil, errUsage},
		{"help", []string{"--help"}, 0, 0, nil, flag.ErrHelp},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			flags, dir := flagSet("test", "")
			flags.SetOutput(&strings.Builder{})
			rest, err := parse(flags, test.args, test.least, test.most)
			if !errors.Is(err, test.err) || !reflect.DeepEqual(rest, test.rest) {
				t.Errorf("parse(%q) = %q, %v, want %q, %v", test.args, rest, err, test.rest, test.err)
			}
			if err == nil && *dir != "/x" {
				t.Errorf("parse(%q): --dir is %s, want /x", test.args, *dir)
			}
		})
	}
}

func TestWishesOfARunningCluster(t *testing.T) {
	c, err := cluster.New("/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		nodes  int
		wishes wishes
		agreed bool
	}{
		{"none", 1, wishes{}, true},
		{"what it is", 1, wishes{nodes: 1, apiPort: 6443}, true},
		{"more nodes: they are added", 1, wishes{nodes: 2}, true},
		{"fewer nodes", 2, wishes{nodes: 1}, false},
		{"another port", 1, wishes{temporalPort: 7234}, false},
		{"another port, and more nodes", 1, wishes{nodes: 2, temporalPort: 7234}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c.Nodes = test.nodes
			if err := test.wishes.agree(c); (err == nil) != test.agreed {
				t.Errorf("agree() = %v", err)
			}
		})
	}
}
