package test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// speech has the words that name no deed: a name or a comment has the verb of
// the field instead. A comment may count words.
var speech = wordSet(`
	tell tells telling told teller say says saying said hear hears hearing heard
	news words worded speak speaks speaking spoke spoken mend mends mended mending
	nobody somebody everybody anybody whoever whom whomever anew he him his himself`)

// camel splits an identifier into its words.
var camel = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// opening matches a sentence whose subject has no noun.
var opening = regexp.MustCompile(`^(What|Whatever|Whoever|Who|Whom|Whose|Those|That of|One that|One who|(Neither|None) (is|are|was|were|has|have|does|do|may|can|must|left))\b[^?]*$`)

// openingOfComment matches a comment that begins with a pronoun.
var openingOfComment = regexp.MustCompile(`^(((It|They|This|These) (is|are|was|were|has|have|may|can|must|does|do))|((It|They) [a-z]+))\b`)

// sentenceEnd splits a comment into its sentences.
var sentenceEnd = regexp.MustCompile(`[.:;?]\s+`)

// maxCommentColumns bounds a line that holds only a comment, with its indent as
// one column per tab.
const maxCommentColumns = 100

// TestWords keeps speech and riddles out of names and comments.
func TestWords(t *testing.T) {
	for _, file := range goFiles(t, ".go") {
		if strings.HasPrefix(filepath.Base(file), "zz_") || strings.HasSuffix(file, "words_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(source), "\n") {
			if text := strings.TrimLeft(line, "\t"); strings.HasPrefix(text, "// ") && !strings.HasPrefix(text, "// +") && len(line) > maxCommentColumns && strings.Contains(text[3:], " ") {
				t.Errorf("%s:%d: the comment has %d columns, at most %d", file, i+1, len(line), maxCommentColumns)
			}
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		reported := map[string]bool{}
		elsewhere := map[ast.Node]bool{} // names that another declaration may own
		ast.Inspect(parsed, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.SelectorExpr:
				elsewhere[node.Sel] = true
			case *ast.KeyValueExpr:
				elsewhere[node.Key] = true
			}
			if name, ok := node.(*ast.Ident); ok && !reported[name.Name] && !elsewhere[name] {
				for _, word := range camel.FindAllString(name.Name, -1) {
					if speech[strings.ToLower(word)] {
						reported[name.Name] = true
						t.Errorf("%s: the name %s has %q", set.Position(name.Pos()), name.Name, word)
					}
				}
			}
			return true
		})
		for _, group := range parsed.Comments {
			checkComment(t, set.Position(group.Pos()).String(), group.Text())
		}
	}
}

// TestWordsOfManifests keeps the comments of manifests as plain as those of code.
func TestWordsOfManifests(t *testing.T) {
	files := append(goFiles(t, ".yaml"), goFiles(t, ".sh")...)
	for _, file := range files {
		folder := strings.Split(filepath.ToSlash(file), "/")[1]
		if folder != "deploy" && folder != "overlays" && folder != "docker-compose.yaml" || strings.Contains(file, "/crds/") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var comment []string
		for i, line := range append(strings.Split(string(source), "\n"), "") {
			if text, found := strings.CutPrefix(strings.TrimSpace(line), "#"); found {
				comment = append(comment, strings.TrimSpace(text))
				continue
			}
			checkComment(t, fmt.Sprintf("%s:%d", file, i+1-len(comment)), strings.Join(comment, "\n"))
			comment = nil
		}
	}
}

func checkComment(t *testing.T, at, text string) {
	for p, paragraph := range strings.Split(text, "\n\n") {
		for i, sentence := range sentenceEnd.Split(strings.Join(strings.Fields(paragraph), " "), -1) {
			if opening.MatchString(sentence) || p+i == 0 && openingOfComment.MatchString(sentence) {
				t.Errorf("%s: a sentence begins without a noun: %s", at, sentence)
			}
			found := map[string]bool{}
			for _, word := range regexp.MustCompile(`[A-Za-z]+`).FindAllString(sentence, -1) {
				if word = strings.ToLower(word); speech[word] && word != "words" {
					found[word] = true
				}
			}
			if len(found) > 0 {
				t.Errorf("%s: %q in: %s", at, slices.Sorted(maps.Keys(found)), sentence)
			}
		}
	}
}

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}
