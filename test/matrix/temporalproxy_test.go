package matrix

import (
	"context"
	"path"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// temporalProxy stands between one program and Temporal. It hands bytes on and
// looks only into those it must understand.
type temporalProxy struct {
	slot    *slot
	program string
	server  *grpc.ClientConn
}

// bytesCodec leaves messages as they are on the wire.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (bytesCodec) Name() string { return "proto" }

// errKilled is the answer to a program that is dead.
var errKilled = status.Error(codes.Unavailable, "killed")

// handle is any call: all of Temporal's are one message each way.
func (t *temporalProxy) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	run := t.slot.run()
	var f *fault
	if name := t.name(run.names, path.Base(method), request); name != "" {
		_, f = run.call(role(t.program), name)
	}
	if f != nil && f.how == stop {
		t.slot.end(t.program)
		f = nil
	}
	if f != nil && f.how == before {
		t.slot.restart(t.program, 0)
		return errKilled
	}
	ctx := stream.Context()
	if f != nil {
		ctx = context.WithoutCancel(ctx)
	}
	if sent, ok := metadata.FromIncomingContext(stream.Context()); ok {
		ctx = metadata.NewOutgoingContext(ctx, sent)
	}
	var reply []byte
	err := t.server.Invoke(ctx, method, &request, &reply, grpc.ForceCodec(bytesCodec{}))
	if f != nil {
		t.slot.restart(t.program, 0)
		return errKilled
	}
	if err != nil {
		return err
	}
	t.learn(t.slot.run().names, path.Base(method), reply)
	if t.slot.long() {
		reply = lengthen(path.Base(method), reply)
	}
	return stream.SendMsg(&reply)
}

// name is the name of a call that changes Temporal's state; empty for any other: polls,
// heartbeats, questions.
func (t *temporalProxy) name(n *names, method string, request []byte) string {
	switch method {
	case "StartWorkflowExecution":
		return "StartWorkflow " + read(&workflowservice.StartWorkflowExecutionRequest{}, request).GetWorkflowType().GetName()
	case "CreateSchedule":
		return ofCron(method, read(&workflowservice.CreateScheduleRequest{}, request))
	case "UpdateSchedule":
		return ofCron(method, read(&workflowservice.UpdateScheduleRequest{}, request))
	case "DeleteSchedule":
		return ofCron(method, read(&workflowservice.DeleteScheduleRequest{}, request))
	case "SignalWorkflowExecution":
		signal := read(&workflowservice.SignalWorkflowExecutionRequest{}, request)
		return "Signal " + signal.GetSignalName() + observation(first(signal.GetInput()))
	case "RespondWorkflowTaskCompleted":
		return "decides " + decision(read(&workflowservice.RespondWorkflowTaskCompletedRequest{}, request).GetCommands())
	case "RespondWorkflowTaskFailed":
		return "fails to decide"
	case "RespondActivityTaskCompleted":
		return "completes " + n.of(string(read(&workflowservice.RespondActivityTaskCompletedRequest{}, request).GetTaskToken()))
	case "RespondActivityTaskFailed":
		return "fails " + n.of(string(read(&workflowservice.RespondActivityTaskFailedRequest{}, request).GetTaskToken()))
	case "RespondActivityTaskCanceled":
		return "cancels " + n.of(string(read(&workflowservice.RespondActivityTaskCanceledRequest{}, request).GetTaskToken()))
	}
	return ""
}

// ofCron is empty for the schedule of the sweep, which each worker deletes when it starts.
func ofCron(method string, of interface{ GetScheduleId() string }) string {
	if strings.HasPrefix(of.GetScheduleId(), "cron/") {
		return method
	}
	return ""
}

// learn notes which activity a task is of.
func (t *temporalProxy) learn(n *names, method string, reply []byte) {
	var tasks []*workflowservice.PollActivityTaskQueueResponse
	switch method {
	case "PollActivityTaskQueue":
		tasks = append(tasks, read(&workflowservice.PollActivityTaskQueueResponse{}, reply))
	case "RespondWorkflowTaskCompleted":
		tasks = read(&workflowservice.RespondWorkflowTaskCompletedResponse{}, reply).GetActivityTasks()
	}
	for _, task := range tasks {
		n.know(string(task.GetTaskToken()), task.GetActivityType().GetName())
	}
}

// read decodes a message; one that cannot be read is empty.
func read[M proto.Message](message M, data []byte) M {
	_ = proto.Unmarshal(data, message)
	return message
}

func first(payloads *commonpb.Payloads) []byte {
	if all := payloads.GetPayloads(); len(all) > 0 {
		return all[0].GetData()
	}
	return nil
}
