package bridgetest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/test/apiserver"
)

// Proxy is the address of a proxy before the API server, for a bridge that runs in a
// process of its own. The bridge needs no credentials. traffic counts its requests and can
// intercept them.
func (b *Bridge) Proxy(traffic *Traffic) (address string) {
	b.T.Helper()
	config := apiserver.Start(b.T)
	to, err := url.Parse(config.Host)
	b.Must(err)
	transport, err := rest.TransportFor(config)
	b.Must(err)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     traffic.wrap(transport),
		FlushInterval: -1, // the events of a watch do not wait for each other
		ErrorLog:      log.New(io.Discard, "", 0),
		// A request that did not reach the server has no answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(proxy)
	server.Config.ErrorLog = proxy.ErrorLog
	server.Start()
	b.T.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}
