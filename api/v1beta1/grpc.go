package v1beta1

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// GRPCDisruption alters the answers of a gRPC server that runs the disruption
// interceptor. Pod level only.
type GRPCDisruption struct {
	// Port is the port the server listens on, 1 to 65535. Required.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int `json:"port"`
	// Endpoints are the alterations. An endpoint may have several, each for a
	// share of its calls. Required.
	//
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self.all(e, self.filter(o, o.endpoint == e.endpoint).map(o, has(o.queryPercent) && type(o.queryPercent) == int && o.queryPercent > 0 ? o.queryPercent : 1).sum() <= 100)",message="the alterations of an endpoint share 100% of its calls, and each needs at least 1%: lower a queryPercent",messageExpression="'%s: the alterations of an endpoint share 100%% of its calls, and each needs at least 1%%: lower a queryPercent'.format([self.filter(e, self.filter(o, o.endpoint == e.endpoint).map(o, has(o.queryPercent) && type(o.queryPercent) == int && o.queryPercent > 0 ? o.queryPercent : 1).sum() > 100)[0].endpoint])"
	// +listType=atomic
	Endpoints []GRPCEndpoint `json:"endpoints"`
}

// GRPCEndpoint is one alteration of one endpoint.
//
// +kubebuilder:validation:XValidation:rule="(has(self.error) && self.error.size() > 0) != (has(self.override) && self.override.size() > 0)",message="set either error or override"
type GRPCEndpoint struct {
	// TargetEndpoint is "/package.Service/Method". Required.
	//
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches('^/[^/ ]+(/[^/ ]+)+$')`,message="want /package.Service/Method, such as /shop.Orders/Place",messageExpression=`'"' + self + '": want /package.Service/Method, such as /shop.Orders/Place'`
	TargetEndpoint string `json:"endpoint"`
	// ErrorToReturn is the gRPC code answered instead. Exclusive with override.
	//
	// +kubebuilder:validation:Enum=OK;CANCELED;UNKNOWN;INVALID_ARGUMENT;DEADLINE_EXCEEDED;NOT_FOUND;ALREADY_EXISTS;PERMISSION_DENIED;RESOURCE_EXHAUSTED;FAILED_PRECONDITION;ABORTED;OUT_OF_RANGE;UNIMPLEMENTED;INTERNAL;UNAVAILABLE;DATA_LOSS;UNAUTHENTICATED;""
	ErrorToReturn string `json:"error,omitempty"`
	// OverrideToReturn is the message answered instead; only the empty one,
	// "{}", is possible. Exclusive with error.
	//
	// +kubebuilder:validation:Enum="{}";""
	OverrideToReturn string `json:"override,omitempty"`
	// QueryPercent is the share of the endpoint's calls that is altered, in
	// percent, 1 to 100. 0, the default, means an equal share of what the
	// endpoint's other alterations leave.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 100)",message="want 0 to 100 percent",messageExpression="string(self) + ': want 0 to 100 percent'"
	QueryPercent PercentNumber `json:"queryPercent,omitempty"`
}

var grpcCodes = strings.Fields(`OK CANCELED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS
	PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE
	DATA_LOSS UNAUTHENTICATED`)

// grpcEndpoint is the full name of a method as servers of gRPC receive it. No call has
// another name.
var grpcEndpoint = regexp.MustCompile(`^/[^/ ]+(/[^/ ]+)+$`)

func (g *GRPCDisruption) validate(path *field.Path) field.ErrorList {
	errs := within(path.Child("port"), g.Port, 1, 65535)
	endpoints := path.Child("endpoints")
	if g.Endpoints == nil {
		errs = append(errs, field.Required(endpoints, "name the endpoints to alter"))
	}
	errs = append(errs, items(endpoints, len(g.Endpoints), 0, 128)...)
	claimed := map[string]int{}
	for i, e := range g.Endpoints {
		errs = append(errs, e.validate(endpoints.Index(i))...)
		claimed[e.TargetEndpoint] += max(int(e.QueryPercent), 1)
	}
	for i, e := range g.Endpoints {
		if claimed[e.TargetEndpoint] > 100 {
			errs = append(errs, field.Invalid(endpoints.Index(i), e.TargetEndpoint,
				"the alterations of an endpoint share 100% of its calls, and each needs at least 1%: lower a queryPercent"))
		}
	}
	return errs
}

func (e GRPCEndpoint) validate(path *field.Path) field.ErrorList {
	errs := length(path.Child("endpoint"), e.TargetEndpoint, 0, 512)
	if !grpcEndpoint.MatchString(e.TargetEndpoint) {
		errs = append(errs, field.Invalid(path.Child("endpoint"), e.TargetEndpoint, "want /package.Service/Method, such as /shop.Orders/Place"))
	}
	if (e.ErrorToReturn != "") == (e.OverrideToReturn != "") {
		errs = append(errs, field.Invalid(path, e.TargetEndpoint, "set either error or override"))
	}
	if e.ErrorToReturn != "" {
		errs = append(errs, oneOf(path.Child("error"), e.ErrorToReturn, grpcCodes...)...)
	}
	if e.OverrideToReturn != "" {
		errs = append(errs, oneOf(path.Child("override"), e.OverrideToReturn, "{}")...)
	}
	return append(errs, within(path.Child("queryPercent"), int(e.QueryPercent), 0, 100)...)
}
