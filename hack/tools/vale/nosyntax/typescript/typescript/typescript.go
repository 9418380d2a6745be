// Package typescript has no grammar.
package typescript

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
