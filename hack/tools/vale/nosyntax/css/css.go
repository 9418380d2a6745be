// Package css has no grammar.
package css

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
