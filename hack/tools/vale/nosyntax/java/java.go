// Package java has no grammar.
package java

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
