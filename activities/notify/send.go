package notify

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
)

const (
	// patience is how long one attempt may take.
	patience = 15 * time.Second
	// longestWait is how long a recipient may ask to be left alone.
	longestWait = time.Hour
	// mostRead is how much of an answer is read.
	mostRead = 1 << 20
	// notDelivered is the type of the errors by which an attempt failed.
	notDelivered = "NotDelivered"
)

// messenger follows no redirect: a signed notification, or a token, is for those
// whom the settings name.
var messenger = &http.Client{
	Timeout:       patience,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// send is one attempt. Its errors name neither address nor headers, and nothing of
// the answer but its status: any of these may hold a secret.
func send(request *http.Request, whom string) ([]byte, error) {
	request.Header.Set("User-Agent", "squall")
	answer, err := messenger.Do(request)
	if broken, ok := errors.AsType[*url.Error](err); ok {
		err = broken.Err // without the URL
	}
	if err != nil {
		return nil, again(0, "%s cannot be reached: %v", whom, err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostRead))
	switch code := answer.StatusCode; {
	case code/100 == 2 && err != nil:
		return nil, again(0, "%s answered %d and no more: %v", whom, code, err)
	case code/100 == 2:
		return body, nil
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return nil, again(retryAfter(answer.Header), "%s answered %d", whom, code)
	case code/100 == 5, code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		return nil, again(0, "%s answered %d", whom, code)
	case code/100 == 3:
		return nil, refused("%s answered %d: redirects are not followed, the setting must name where it leads", whom, code)
	default:
		return nil, refused("%s answered %d", whom, code)
	}
}

// retryAfter is how long to wait, by that header; 0 if it says nothing sensible.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	wait := time.Duration(0)
	if seconds, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(min(max(seconds, 0), int(longestWait/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), longestWait)
}

// again is an error after which the same may succeed later, not before wait.
func again(wait time.Duration, format string, args ...any) error {
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf(format, args...), notDelivered,
		temporal.ApplicationErrorOptions{NextRetryDelay: wait, Category: temporal.ApplicationErrorCategoryBenign})
}

// refused is an error that no other attempt mends.
func refused(format string, args ...any) error {
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf(format, args...), notDelivered, temporal.ApplicationErrorOptions{NonRetryable: true})
}
