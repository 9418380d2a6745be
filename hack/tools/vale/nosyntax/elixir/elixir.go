// Package elixir has no grammar.
package elixir

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
