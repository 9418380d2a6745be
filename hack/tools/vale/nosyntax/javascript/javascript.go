// Package javascript has no grammar.
package javascript

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
