// Package golang has no grammar.
package golang

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
