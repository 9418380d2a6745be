// Package bash has no grammar.
package bash

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
