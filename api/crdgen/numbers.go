package main

import (
	"regexp"
	"strconv"
)

// bounded is how the rule of a number that may be a text begins.
var bounded = regexp.MustCompile(`self >= (\d+) && self <= (\d+)`)

// boundNumbers gives the numbers that may be texts the minimum and maximum of their rule,
// which controller-gen refuses as markers. Templates of scenarios keep these alone.
func boundNumbers(node any) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			boundNumbers(item)
		}
	case map[string]any:
		for _, value := range node {
			boundNumbers(value)
		}
		if node["x-kubernetes-int-or-string"] != true {
			return
		}
		rules, _ := node["x-kubernetes-validations"].([]any)
		for _, rule := range rules {
			text, _ := rule.(map[string]any)["rule"].(string)
			if bounds := bounded.FindStringSubmatch(text); bounds != nil {
				node["minimum"], _ = strconv.Atoi(bounds[1])
				node["maximum"], _ = strconv.Atoi(bounds[2])
			}
		}
	}
}
