package v1beta1

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PercentNumber is a share in percent: in JSON the number 40, or a string such as "40%"
// or "40". It is written as a number. Each field has its own range.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=8
// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%?$`
type PercentNumber int

// UnmarshalJSON reads a number, or a string with or without the sign.
func (p *PercentNumber) UnmarshalJSON(data []byte) error {
	number, err := numberOf(data, func(text string) (int, error) { return strconv.Atoi(strings.TrimSuffix(text, "%")) })
	if err != nil {
		return fmt.Errorf("percentage %s: want a whole number such as 40, or a string such as \"40%%\"", data)
	}
	*p = PercentNumber(number)
	return nil
}

// Milliseconds is a length of time: in JSON a number of milliseconds such as 200, or a
// string of more than 0 such as "200ms" or "1.5s". It is written as a number.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:Pattern=`^([0-9]*[1-9][0-9]*([.][0-9]+)?|0[.][0-9]*[1-9][0-9]*)(ms|s)$`
type Milliseconds int

// UnmarshalJSON reads a number, or a string with a unit.
func (m *Milliseconds) UnmarshalJSON(data []byte) error {
	number, err := numberOf(data, func(text string) (int, error) {
		length, err := time.ParseDuration(text)
		if length%time.Millisecond != 0 || length == 0 { // the rules of the CRD know 0 as a number alone
			return 0, fmt.Errorf("%s is no whole number of milliseconds", length)
		}
		return int(length.Milliseconds()), err
	})
	if err != nil {
		return fmt.Errorf("delay %s: want whole milliseconds such as 200, or a string such as \"200ms\"", data)
	}
	*m = Milliseconds(number)
	return nil
}

// numberOf is the number in JSON, or what parse makes of a string.
func numberOf(data []byte, parse func(string) (int, error)) (int, error) {
	var number int
	if json.Unmarshal(data, &number) == nil {
		return number, nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return 0, err
	}
	return parse(strings.TrimSpace(text))
}
