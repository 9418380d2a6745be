// Package lua has no grammar.
package lua

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
