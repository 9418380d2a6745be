package connect

import (
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
)

// Advise adds a hint to an error from Temporal or from the way to it. Any other error is
// returned as it is, and so is nil.
func Advise(err error) error {
	if advice := Advice(err); advice != "" {
		return fmt.Errorf("%w; %s", err, advice)
	}
	return err
}

const whoWeAre = "the API key (SQUALL_TEMPORAL_API_KEY, or the file of SQUALL_TEMPORAL_API_KEY_FILE) or the client certificate (SQUALL_TEMPORAL_TLS_CERT, SQUALL_TEMPORAL_TLS_KEY)"

// Refused is true when Temporal denied permission.
func Refused(err error) bool {
	code := serviceerror.ToStatus(err).Code()
	return code == codes.PermissionDenied || code == codes.Unauthenticated
}

// LacksAttributes is true when Temporal refused a workflow's search attributes.
func LacksAttributes(err error) bool {
	answer := serviceerror.ToStatus(err)
	return answer.Code() == codes.InvalidArgument && strings.Contains(answer.Message(), "search attribute")
}

// Advice is the hint that Advise adds; empty when there is none. The same cause gives the
// same text. It names settings as both programs do.
func Advice(err error) string {
	if err == nil {
		return ""
	}
	if missing, ok := errors.AsType[*serviceerror.NamespaceNotFound](err); ok {
		return fmt.Sprintf("create it with: temporal operator namespace create --namespace %s --retention 720h "+
			"(deploy/temporal/namespace.sh does), or name another in SQUALL_TEMPORAL_NAMESPACE", missing.Namespace)
	}
	switch {
	case Refused(err):
		return "Temporal refuses these credentials: set " + whoWeAre +
			", or grant them read and write in the namespace; in a cluster they are in Secret squall-temporal"
	case LacksAttributes(err):
		return "create the search attributes by deploy/temporal/namespace.sh; the worker logs the missing ones"
	}
	return transport(err.Error())
}

// transport has hints for the errors of gRPC and TLS. They have no codes for these
// causes, so it matches their text.
func transport(message string) string {
	for _, known := range []struct{ text, advice string }{
		{"certificate required", "the server wants a client certificate: set SQUALL_TEMPORAL_TLS_CERT and SQUALL_TEMPORAL_TLS_KEY"},
		{"bad certificate", "the server refuses the client certificate: set another in SQUALL_TEMPORAL_TLS_CERT and SQUALL_TEMPORAL_TLS_KEY"},
		{"unknown authority", "name the CA that signed the server's certificate in SQUALL_TEMPORAL_TLS_CA"},
		{"x509: certificate is valid for", "call the server by a name of its certificate in SQUALL_TEMPORAL_ADDRESS"},
		{"first record does not look like a TLS handshake", "the server does not encrypt: set SQUALL_TEMPORAL_TLS=false and no API key or certificate"},
		{"error reading server preface", "the server may want TLS: set SQUALL_TEMPORAL_TLS=true"},
		{"connection refused", "nothing listens there; check that Temporal runs, and set SQUALL_TEMPORAL_ADDRESS to host:port of its frontend"},
		{"no such host", "the name is not known: set SQUALL_TEMPORAL_ADDRESS to host:port of Temporal's frontend"},
		{"no children to pick from", "the name is not known: set SQUALL_TEMPORAL_ADDRESS to host:port of Temporal's frontend"},
	} {
		if strings.Contains(message, known.text) {
			return known.advice
		}
	}
	return ""
}
