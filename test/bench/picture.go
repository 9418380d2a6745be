package bench

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// curve is one line of a picture: how long something takes, by how many targets.
type curve struct {
	name   string
	class  string // of style
	points []point
}

type point struct {
	targets int
	took    time.Duration
}

// Of the picture, in its own units.
const (
	width, height = 720, 460
	left, right   = 70, 40
	top, bottom   = 88, 56
)

// style reads well on light and on dark ground.
const style = `
text { font: 13px system-ui, sans-serif; fill: #444 } .title { font-weight: 600; fill: #111 }
.grid { stroke: #0002 } path, .key { fill: none; stroke-width: 2.5 } .floor { stroke-dasharray: 5 4; stroke-width: 1.5 }
.create { stroke: #1f6fd1 } .delete { stroke: #c2570c } circle.create { fill: #1f6fd1; stroke: none } circle.delete { fill: #c2570c; stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #bbb } .title { fill: #eee } .grid { stroke: #fff3 }
.create { stroke: #6db1ff } .delete { stroke: #ff9a52 } circle.create { fill: #6db1ff } circle.delete { fill: #ff9a52 }
}
`

// picture draws the curves as SVG, both axes by powers of ten.
func picture(title string, curves []curve) string {
	x, y := axes(curves)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n<style>%s</style>\n", width, height, title, style)
	fmt.Fprintf(&b, `<text class="title" x="%d" y="24">%s</text>`+"\n", left, title)
	for p := x.low; p <= x.high; p++ {
		at := x.at(math.Pow(10, float64(p)))
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			at, top, at, height-bottom, at, height-bottom+20, thousands(int64(math.Pow(10, float64(p)))))
	}
	for p := y.low; p <= y.high; p++ {
		at := y.at(math.Pow(10, float64(p)))
		fmt.Fprintf(&b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%g s</text>`+"\n",
			left, at, width-right, at, left-8, at+4, math.Pow(10, float64(p)))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">targets</text>`+"\n", (left+width-right)/2, height-12)
	for i, c := range curves {
		var path strings.Builder
		for j, p := range c.points {
			px, py := x.at(float64(p.targets)), y.at(p.took.Seconds())
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(j, 1)], px, py)
			fmt.Fprintf(&b, `<circle class="%s" cx="%.1f" cy="%.1f" r="3"/>`+"\n", c.class, px, py)
		}
		fmt.Fprintf(&b, `<path class="%s" d="%s"/>`+"\n", c.class, path.String())
		keyX, keyY := left+i%2*240, 46+i/2*20
		fmt.Fprintf(&b, `<line class="key %s" x1="%d" y1="%d" x2="%d" y2="%d"/><text x="%d" y="%d">%s</text>`+"\n",
			c.class, keyX, keyY, keyX+32, keyY, keyX+40, keyY+4, c.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// axis is from 10^low to 10^high, drawn from one place to another.
type axis struct {
	low, high int
	from, to  float64
}

func (a axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*(math.Log10(v)-float64(a.low))/float64(a.high-a.low)
}

// axes have room for all points.
func axes(curves []curve) (x, y axis) {
	x, y = axis{0, 1, left, width - right}, axis{math.MaxInt, math.MinInt, height - bottom, top}
	for _, c := range curves {
		for _, p := range c.points {
			seconds := math.Log10(p.took.Seconds())
			x.high = max(x.high, int(math.Ceil(math.Log10(float64(p.targets)))))
			y.low, y.high = min(y.low, int(math.Floor(seconds))), max(y.high, int(math.Ceil(seconds)))
		}
	}
	return x, y
}
