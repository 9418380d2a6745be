// Package c has no grammar.
package c

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
