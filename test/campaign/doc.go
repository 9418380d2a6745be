// Package campaign applies generated Disruptions. Each has one field of a valid
// one changed: to a valid value, to a bound, beyond the bound, or to another type.
// The API server refuses such a Disruption with a message that names the field or
// the value, or the Disruption works, or its status explains why not. Deletion
// leaves nothing. No pod is ever disrupted that was not selected.
package campaign
