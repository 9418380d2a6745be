// Package ruby has no grammar.
package ruby

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
