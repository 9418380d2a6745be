package v1beta1

import (
	"cmp"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NetworkService matches what the target sends to a Kubernetes service: to its
// cluster address and to the addresses of its ready endpoints.
type NetworkService struct {
	// Name of the service. Required.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Namespace of the service. Empty means that of the Disruption.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$`
	Namespace string `json:"namespace,omitempty"`
	// Ports narrows the match to these ports of the service; empty means all.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +nullable
	Ports []NetworkServicePort `json:"ports,omitempty"`
	// Percentage is the share of the service's addresses that is disrupted, 1 to 100,
	// rounded up. Nothing means 100.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 100 : !self.startsWith('0')",message="want 1 to 100 percent",messageExpression="string(self) + ': want 1 to 100 percent'"
	// +nullable
	Percentage *PercentNumber `json:"percentage,omitempty"`
}

// In is the service as a Disruption of this namespace means it.
func (n NetworkService) In(namespace string) NetworkService {
	n.Namespace = cmp.Or(n.Namespace, namespace)
	return n
}

// NetworkServicePort names a port of a service by its name, its number or both.
type NetworkServicePort struct {
	// Name of the port.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// Port is its number, up to 65535; 0 means any.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int `json:"port,omitempty"`
}

// NetworkCloud matches traffic between the target and services of cloud
// providers. At least one service of one provider is needed.
//
// +kubebuilder:validation:XValidation:rule="has(self.aws) && self.aws.size() > 0 || has(self.gcp) && self.gcp.size() > 0 || has(self.datadog) && self.datadog.size() > 0",message="name at least one provider: aws, gcp or datadog"
type NetworkCloud struct {
	// AWS are services of Amazon Web Services, by the names AWS publishes.
	//
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +nullable
	AWS []NetworkCloudService `json:"aws,omitempty"`
	// GCP are services of Google Cloud, by the names Google publishes.
	//
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +nullable
	GCP []NetworkCloudService `json:"gcp,omitempty"`
	// Datadog are services of Datadog, by the names Datadog publishes.
	//
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +nullable
	Datadog []NetworkCloudService `json:"datadog,omitempty"`
}

// NetworkCloudService is one service of a cloud provider.
type NetworkCloudService struct {
	// ServiceName is the provider's name of the service, such as S3. Required.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceName string `json:"service"`
	// Protocol is tcp or udp, in any case, or empty for every protocol.
	//
	// +kubebuilder:validation:Pattern=`^([Tt][Cc][Pp]|[Uu][Dd][Pp])?$`
	// +kubebuilder:validation:MaxLength=16
	Protocol string `json:"protocol,omitempty"`
	// Flow is egress (the default) or ingress.
	//
	// +kubebuilder:validation:Enum=egress;ingress;""
	Flow string `json:"flow,omitempty"`
	// ConnState is new, est (established) or empty for any connection.
	//
	// +kubebuilder:validation:Enum=new;est;""
	ConnState string `json:"connState,omitempty"`
}

// NetworkHTTP matches packets that begin a plain HTTP/1 request: its request
// line begins a TCP segment, and is not encrypted.
type NetworkHTTP struct {
	// Methods are upper-case HTTP methods, each once; empty means all.
	//
	// +kubebuilder:validation:MaxItems=9
	// +kubebuilder:validation:items:Enum=GET;HEAD;POST;PUT;PATCH;DELETE;CONNECT;OPTIONS;TRACE
	// +listType=set
	// +nullable
	Methods []string `json:"methods,omitempty"`
	// Paths are prefixes of the request's path, each once, at most 20 of at
	// most 90 characters. Empty means "/", which is every path and stands alone.
	//
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=90
	// +kubebuilder:validation:items:Pattern=`^/[^\t\n\f\r ]*$`
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.exists(p, p == '/')",message="\"/\" matches every path: leave the others out, or leave it out",messageExpression="'\"/\" matches every path: leave the other %d out, or leave it out'.format([self.size() - 1])"
	// +listType=set
	// +nullable
	Paths []string `json:"paths,omitempty"`
}

var (
	httpMethods  = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}
	httpPath     = regexp.MustCompile(`^/[^\t\n\f\r ]*$`)
	objectName   = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)
	protocolName = regexp.MustCompile(`^([Tt][Cc][Pp]|[Uu][Dd][Pp])?$`)
)

func validateServices(path *field.Path, services []NetworkService) field.ErrorList {
	errs := items(path, len(services), 0, 1024)
	for i, s := range services {
		at := path.Index(i)
		errs = append(errs, length(at.Child("name"), s.Name, 1, 253)...)
		errs = append(errs, pattern(at.Child("name"), s.Name, objectName, "want the name of a service, such as checkout")...)
		if errs = append(errs, length(at.Child("namespace"), s.Namespace, 0, 253)...); s.Namespace != "" {
			errs = append(errs, pattern(at.Child("namespace"), s.Namespace, objectName, "want the name of a namespace, such as shop")...)
		}
		errs = append(errs, items(at.Child("ports"), len(s.Ports), 0, 64)...)
		for j, port := range s.Ports {
			errs = append(errs, length(at.Child("ports").Index(j).Child("name"), port.Name, 0, 63)...)
			errs = append(errs, within(at.Child("ports").Index(j).Child("port"), port.Port, 0, 65535)...)
		}
		if s.Percentage != nil {
			errs = append(errs, within(at.Child("percentage"), int(*s.Percentage), 1, 100)...)
		}
	}
	return errs
}

func (c *NetworkCloud) validate(path *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	if len(c.AWS)+len(c.GCP)+len(c.Datadog) == 0 {
		return field.ErrorList{field.Required(path, "name at least one provider: aws, gcp or datadog")}
	}
	var errs field.ErrorList
	for _, provider := range []struct {
		name     string
		services []NetworkCloudService
	}{{"aws", c.AWS}, {"gcp", c.GCP}, {"datadog", c.Datadog}} {
		at := path.Child(provider.name)
		errs = append(errs, items(at, len(provider.services), 0, 128)...)
		for i, s := range provider.services {
			errs = append(errs, length(at.Index(i).Child("service"), s.ServiceName, 1, 253)...)
			errs = append(errs, validateTraffic(at.Index(i), s.Protocol, s.Flow, s.ConnState)...)
		}
	}
	return errs
}

func (h *NetworkHTTP) validate(path *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	methods, paths := path.Child("methods"), path.Child("paths")
	errs := items(methods, len(h.Methods), 0, 9)
	for i, method := range h.Methods {
		errs = append(errs, oneOf(methods.Index(i), method, httpMethods...)...)
	}
	errs = append(errs, unique(methods, h.Methods)...)
	errs = append(errs, items(paths, len(h.Paths), 0, 20)...)
	for i, prefix := range h.Paths {
		errs = append(errs, length(paths.Index(i), prefix, 1, 90)...)
		errs = append(errs, pattern(paths.Index(i), prefix, httpPath, "want a path that begins with / and has no blanks")...)
	}
	errs = append(errs, unique(paths, h.Paths)...)
	if len(h.Paths) > 1 && slices.Contains(h.Paths, "/") {
		errs = append(errs, field.Invalid(paths, "/", "\"/\" matches every path: leave the others out, or leave it out"))
	}
	return errs
}

// validateTraffic checks what hosts and cloud services have in common.
func validateTraffic(path *field.Path, protocol, flow, connState string) field.ErrorList {
	errs := pattern(path.Child("protocol"), protocol, protocolName, "want tcp or udp, or nothing for every protocol, ICMP as well")
	errs = append(errs, oneOf(path.Child("flow"), flow, "", "egress", "ingress")...)
	return append(errs, oneOf(path.Child("connState"), connState, "", "new", "est")...)
}
