package traces

import (
	"errors"
	"reflect"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/workflows/contract"
)

// about names the workflow of a span, with the attributes of Temporal's SDKs, and its
// disruption.
func about(id, run string) []attribute.KeyValue {
	all := []attribute.KeyValue{attribute.String("temporalWorkflowID", id)}
	if run != "" {
		all = append(all, attribute.String("temporalRunID", run))
	}
	if ref, found := disruptionOf(id); found {
		all = append(all, attribute.String("squall.disruption.namespace", ref.Namespace),
			attribute.String("squall.disruption.name", ref.Name), attribute.String("squall.disruption.uid", string(ref.UID)))
	}
	return all
}

// kinds are the faults in a workflow's search attributes.
func kinds(of temporal.SearchAttributes) []attribute.KeyValue {
	names, known := of.GetKeywordList(temporal.NewSearchAttributeKeyKeywordList(contract.AttributeKinds))
	if !known {
		return nil
	}
	return []attribute.KeyValue{attribute.StringSlice("squall.disruption.kinds", names)}
}

// counts are the numbers of a result, and how long its lists are. Texts are left out: a
// probe's answer may be among them, and a secret in that.
func counts(result any) (all []attribute.KeyValue) {
	value := reflect.Indirect(reflect.ValueOf(result))
	if value.IsValid() && value.CanInt() {
		return []attribute.KeyValue{attribute.Int64("squall.result", value.Int())}
	}
	if value.Kind() != reflect.Struct {
		return nil
	}
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		switch field := value.Field(i); field.Kind() {
		case reflect.Int, reflect.Int32, reflect.Int64:
			all = append(all, attribute.Int64("squall.result."+name, field.Int()))
		case reflect.Slice:
			all = append(all, attribute.Int("squall.result."+name, field.Len()))
		}
	}
	return all
}

// failed marks a span with the type of err. Its text is left out, as are texts of
// results. A new run is no failure.
func failed(span trace.Span, err error) {
	if err == nil || workflow.IsContinueAsNewError(err) {
		return
	}
	kind := reflect.TypeOf(err).String()
	if application, is := errors.AsType[*temporal.ApplicationError](err); is && application.Type() != "" {
		kind = application.Type()
	}
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, kind)
}

// waits is true for an attempt that failed only to be repeated later.
func waits(err error) bool {
	application, is := errors.AsType[*temporal.ApplicationError](err)
	return is && application.Category() == temporal.ApplicationErrorCategoryBenign
}
