// Package campaign tries what nobody thought of trying: Disruptions generated
// from the schema, each with one field of a valid one changed, to values that are
// right, at a bound, beyond it, or of another type. The API server refuses such a
// Disruption in words that name the field or the value, or it works, or says why it
// does not, and goes without a trace when it is deleted. Nothing is ever disturbed
// that was not chosen.
package campaign
