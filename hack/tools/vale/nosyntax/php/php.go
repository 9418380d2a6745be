// Package php has no grammar.
package php

// GetLanguage returns nil.
func GetLanguage() *struct{} { return nil }
