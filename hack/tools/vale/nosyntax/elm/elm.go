// Package elm has no grammar.
package elm

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
