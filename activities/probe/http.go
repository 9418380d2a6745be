package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// maxRequests bounds the requests to one host: the first and its redirects.
const maxRequests = 10

// httpGet succeeds on a status from 200 to 399. A status of 300 and more remains only
// where a redirect leads to another host, which is not asked: that is a success with a
// warning (rule P1).
func (p *Prober) httpGet(ctx context.Context, get *v1beta1.HTTPGetProbe, target *Target) (Answer, error) {
	request, err := p.newRequest(ctx, get, target)
	if err != nil {
		return Answer{}, err
	}
	transport := &http.Transport{
		DialContext: p.dial(target),
		// The probe asks whether the service answers, not who it is.
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2:  true,
		DisableKeepAlives:  true,
		DisableCompression: true,
	}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: sameHost}
	response, err := client.Do(request)
	if err != nil {
		return httpFailed(err)
	}
	defer func() { _ = response.Body.Close() }()
	// Read the body as far as a client would, to detect a server that breaks off.
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxBody)); err != nil {
		return Answer{}, errors.New("the body broke off")
	}
	text := fmt.Sprintf("HTTP status %d", response.StatusCode)
	switch {
	case response.StatusCode >= 200 && response.StatusCode < 300:
		return Answer{Result: Success, Text: text}, nil
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return Answer{Result: Success, Warning: true, Text: text + ": a redirect that is not followed"}, nil
	}
	return Answer{Result: Failure, Text: text}, nil
}

func (p *Prober) newRequest(ctx context.Context, get *v1beta1.HTTPGetProbe, target *Target) (*http.Request, error) {
	place, err := target.place(get.Host, get.Port)
	if err != nil {
		return nil, err
	}
	where, err := url.Parse(get.Path)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", get.Path, err)
	}
	where.Scheme, where.Host = "http", place
	if strings.EqualFold(get.Scheme, "https") {
		where.Scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, header := range get.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	if _, set := request.Header["User-Agent"]; !set {
		request.Header.Set("User-Agent", p.userAgent())
	}
	if accept, set := request.Header["Accept"]; !set {
		request.Header.Set("Accept", "*/*")
	} else if accept[0] == "" {
		request.Header.Del("Accept")
	}
	// Package net/http sends the field, never the header.
	request.Host = request.Header.Get("Host")
	return request, nil
}

// sameHost follows redirects to the same host, whatever their port and scheme.
func sameHost(next *http.Request, before []*http.Request) error {
	if next.URL.Hostname() != before[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(before) >= maxRequests {
		return errRedirects
	}
	return nil
}

var errRedirects = fmt.Errorf("more than %d redirects", maxRequests-1)

func httpFailed(err error) (Answer, error) {
	if errors.Is(err, errRedirects) {
		return Answer{Result: Failure, Text: errRedirects.Error()}, nil
	}
	return failed(err)
}
