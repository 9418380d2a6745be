package flow

import "go.temporal.io/sdk/workflow"

// Each handles all messages that wait in a channel. The SDK drops a message that is not a
// T, and logs it.
func Each[T any](c workflow.ReceiveChannel, handle func(T)) {
	for {
		var message T
		if !c.ReceiveAsync(&message) {
			return
		}
		handle(message)
	}
}

// ReasonOf is the reason in a contract.End, empty if there is none. Any other argument
// ends the workflow as well: a person who sends "end" by hand may get it wrong.
func ReasonOf(end any) string {
	fields, _ := end.(map[string]any)
	reason, _ := fields["reason"].(string)
	return reason
}
