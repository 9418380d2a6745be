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
	// patience bounds one attempt.
	patience = 15 * time.Second
	// longestWait bounds the pause that a recipient may ask for.
	longestWait = time.Hour
	// mostRead bounds how much of an answer is read, in bytes.
	mostRead = 1 << 20
	// notDelivered is the type of the errors of failed attempts.
	notDelivered = "NotDelivered"
)

// messenger follows no redirect: a signed notification, or a token, is only for the
// host in the settings.
var messenger = &http.Client{
	Timeout:       patience,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// send makes one attempt. Its errors name neither address nor headers, and of the
// answer only the status: any of these may hold a secret.
func send(request *http.Request, recipient string) ([]byte, error) {
	request.Header.Set("User-Agent", "squall")
	answer, err := messenger.Do(request)
	if broken, ok := errors.AsType[*url.Error](err); ok {
		err = broken.Err // without the URL
	}
	if err != nil {
		return nil, again(0, "%s cannot be reached: %v", recipient, err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostRead))
	switch code := answer.StatusCode; {
	case code/100 == 2 && err != nil:
		return nil, again(0, "%s answered %d and no more: %v", recipient, code, err)
	case code/100 == 2:
		return body, nil
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return nil, again(retryAfter(answer.Header), "%s answered %d", recipient, code)
	case code/100 == 5, code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		return nil, again(0, "%s answered %d", recipient, code)
	case code/100 == 3:
		return nil, refused("%s answered %d: redirects are not followed, the setting must name where it leads", recipient, code)
	default:
		return nil, refused("%s answered %d", recipient, code)
	}
}

// retryAfter is the pause that the header asks for; 0 if it is missing or invalid.
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

// again returns an error for an attempt that may succeed later, but not before wait.
func again(wait time.Duration, format string, args ...any) error {
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf(format, args...), notDelivered,
		temporal.ApplicationErrorOptions{NextRetryDelay: wait, Category: temporal.ApplicationErrorCategoryBenign})
}

// refused returns an error that no other attempt can fix.
func refused(format string, args ...any) error {
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf(format, args...), notDelivered, temporal.ApplicationErrorOptions{NonRetryable: true})
}
