// Package losstest computes how many packets a test may see lost when each is lost with the
// same probability. It promises bounds that chance alone exceeds once in 16,000
// measurements.
package losstest

import "math"

// Bounds returns the range of lost packets for a number of packets and a probability in
// percent. One measurement in 16,000 is outside by chance; at 99.9 % the suite would fail
// once in 150 runs.
func Bounds(packets, percent int) (low, high int) {
	p := float64(percent) / 100
	mean := float64(packets) * p
	spread := 4 * math.Sqrt(mean*(1-p))
	return int(math.Floor(mean - spread)), int(math.Ceil(mean + spread))
}
