// Package julia has no grammar.
package julia

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
