// Package rust has no grammar.
package rust

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
