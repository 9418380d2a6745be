// Package sitter takes the place of Tree-sitter in Vale, which is C: this
// repository's tools are built without a C compiler. Vale reads comments of
// programs by it. Markdown, which is all that Vale reads here, needs none of it.
package sitter

import (
	"context"
	"errors"
)

// errNoSyntax is what Vale reports for a file of source code.
var errNoSyntax = errors.New("vale was built without Tree-sitter: it reads Markdown and text, no source code")

type (
	// Language is a grammar. There is none.
	Language = struct{}
	// Parser parses nothing.
	Parser struct{}
	// Tree is never made.
	Tree struct{}
	// Node is never made.
	Node struct{}
	// Query is never made.
	Query struct{}
	// QueryCursor finds nothing.
	QueryCursor struct{}
	// QueryMatch is never made.
	QueryMatch struct{ Captures []QueryCapture }
	// QueryCapture is never made.
	QueryCapture struct {
		Index uint32
		Node  *Node
	}
	// Point is a place in a file.
	Point struct{ Row, Column uint32 }
)

// NewParser returns a parser whose ParseCtx fails.
func NewParser() *Parser { return &Parser{} }

// SetLanguage does nothing.
func (*Parser) SetLanguage(*Language) {}

// ParseCtx fails.
func (*Parser) ParseCtx(context.Context, *Tree, []byte) (*Tree, error) { return nil, errNoSyntax }

// RootNode returns nil.
func (*Tree) RootNode() *Node { return nil }

// Content returns no text.
func (*Node) Content([]byte) string { return "" }

// StartPoint returns the start of the file.
func (*Node) StartPoint() Point { return Point{} }

// NewQuery fails.
func NewQuery([]byte, *Language) (*Query, error) { return nil, errNoSyntax }

// CaptureNameForId returns no name.
func (*Query) CaptureNameForId(uint32) string { return "" }

// NewQueryCursor returns a cursor that finds nothing.
func NewQueryCursor() *QueryCursor { return &QueryCursor{} }

// Exec does nothing.
func (*QueryCursor) Exec(*Query, *Node) {}

// NextMatch finds no match.
func (*QueryCursor) NextMatch() (*QueryMatch, bool) { return nil, false }

// FilterPredicates returns the match.
func (*QueryCursor) FilterPredicates(m *QueryMatch, _ []byte) *QueryMatch { return m }
