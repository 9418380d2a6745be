// Package cpp has no grammar.
package cpp

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
