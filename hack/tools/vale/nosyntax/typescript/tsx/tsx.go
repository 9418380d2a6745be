// Package tsx has no grammar.
package tsx

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
