package ui

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"

	"github.com/chromedp/chromedp"
)

// shoot takes a picture of the page without what frames it, for people and for
// the manual.
func (b *browser) shoot(name string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatalf("take a picture: %v", err)
	}
	edges, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]float64](
		`(r => [r.left, r.top, r.right, r.bottom])(document.querySelector("main").getBoundingClientRect())`))
	if err != nil {
		b.t.Fatalf("find the main part of the page: %v", err)
	}
	if picture, err = shrink(picture, image.Rect(int(edges[0]), int(edges[1]), int(edges[2]), int(edges[3]))); err != nil {
		b.t.Fatalf("make the picture small: %v", err)
	}
	b.taken++
	file := filepath.Join(b.shots, fmt.Sprintf("ui-%d-%s.png", b.taken, name))
	if _, err := os.Stat(file); *record && err != nil {
		return // no page of the manual shows it
	}
	if err := os.WriteFile(file, picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("%s: %d KB", file, len(picture)/1024)
}

// shrink keeps a part of a PNG and of its colours the 256 most frequent: a page
// of text has hardly more, and takes a third of the space.
func shrink(picture []byte, part image.Rectangle) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	full = full.(interface {
		SubImage(image.Rectangle) image.Image
	}).SubImage(part)
	seen := map[color.Color]int{}
	eachPixel(full, func(x, y int) { seen[full.At(x, y)]++ })
	var palette color.Palette
	for c := range seen {
		palette = append(palette, c)
	}
	slices.SortFunc(palette, func(a, b color.Color) int { return cmp.Compare(seen[b], seen[a]) })
	palette = palette[:min(len(palette), 256)]

	small, nearest := image.NewPaletted(full.Bounds(), palette), map[color.Color]uint8{}
	eachPixel(full, func(x, y int) {
		c := full.At(x, y)
		index, known := nearest[c]
		if !known {
			index = uint8(palette.Index(c))
			nearest[c] = index
		}
		small.SetColorIndex(x, y, index)
	})
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
	return out.Bytes(), err
}

func eachPixel(picture image.Image, do func(x, y int)) {
	area := picture.Bounds()
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			do(x, y)
		}
	}
}
