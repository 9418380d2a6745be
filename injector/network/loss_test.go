package network

import "math"

// binomialBounds is the range that holds the number of packets lost of so many
// when each is lost with the share's probability. One measurement in 16,000 is
// outside by chance; at 99.9 % the suite would fail once in 150 runs.
func binomialBounds(packets int, share Percent) (low, high int) {
	p := float64(share) / 100
	mean := float64(packets) * p
	spread := 4 * math.Sqrt(mean*(1-p))
	return int(math.Floor(mean - spread)), int(math.Ceil(mean + spread))
}
