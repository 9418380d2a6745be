// Package protobuf has no grammar.
package protobuf

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
