package v1beta1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Hash is the SHA-256 of the spec in hexadecimal (rule 7). It is taken
// over JSON with sorted keys and with the defaults set, so neither the order of
// keys in a manifest, nor the order of fields in this package, nor reading an
// object and writing it back changes it.
func (s DisruptionSpec) Hash() string {
	complete := s.DeepCopy()
	complete.setDefaults()
	sum := sha256.Sum256(canonical(complete))
	return hex.EncodeToString(sum[:])
}

// canonical is value as JSON with sorted keys. Values of this package always
// marshal, so the errors cannot occur.
func canonical(value any) []byte {
	ordered, _ := json.Marshal(value)
	var tree any
	_ = json.Unmarshal(ordered, &tree)
	sorted, _ := json.Marshal(tree)
	return sorted
}
