package network

import "math"

// binomialBounds is the range that holds, in 99.9 of 100 runs, the number of
// packets lost of so many when each is lost with the share's probability.
func binomialBounds(packets int, share Percent) (low, high int) {
	p := float64(share) / 100
	mean := float64(packets) * p
	spread := 3.29 * math.Sqrt(mean*(1-p))
	return int(math.Floor(mean - spread)), int(math.Ceil(mean + spread))
}
