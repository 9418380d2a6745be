// Package yaml has no grammar.
package yaml

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
