package v1beta1

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Percentage is a share from 1 to 100 percent: in JSON a string such as "75%" or
// "75", or the number 75. It is written as a string.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 1 && self <= 100 : self.matches('^\\s*(0*([1-9][0-9]?|100)%?)?\\s*$')`,message="want a percentage from \"1%\" to \"100%\"",messageExpression=`string(self) + ': want a percentage from "1%" to "100%"'`
type Percentage struct {
	// Text is what was written; "" is no share.
	Text string `json:"-"`
}

// UnmarshalJSON reads a string, with or without the sign, or a number.
func (p *Percentage) UnmarshalJSON(data []byte) error {
	var number int64
	if err := json.Unmarshal(data, &number); err == nil {
		p.Text = strconv.FormatInt(number, 10) + "%"
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("percentage %s: want a string such as \"75%%\" or a number such as 75", data)
	}
	p.Text = text
	return nil
}

// MarshalJSON writes the share as a string.
func (p Percentage) MarshalJSON() ([]byte, error) { return json.Marshal(p.Text) }

// Value is the share in percent, 1 to 100. It fails for text that is no share.
func (p Percentage) Value() (int, error) {
	digits := strings.TrimSuffix(strings.TrimSpace(p.Text), "%")
	percent, err := strconv.Atoi(digits)
	if err != nil || percent < 1 || percent > 100 || strings.HasPrefix(digits, "+") {
		return 0, fmt.Errorf("%q: want a percentage from \"1%%\" to \"100%%\"", p.Text)
	}
	return percent, nil
}

// Given is true when a share was written.
func (p *Percentage) Given() bool { return p != nil && p.Text != "" }

// String is the share with its sign.
func (p Percentage) String() string {
	text := strings.TrimSpace(p.Text)
	if text == "" || strings.HasSuffix(text, "%") {
		return text
	}
	return text + "%"
}

func (p Percentage) validate(path *field.Path) field.ErrorList {
	if _, err := p.Value(); err != nil {
		return field.ErrorList{field.Invalid(path, p.Text, "want a percentage from \"1%\" to \"100%\"")}
	}
	return nil
}
