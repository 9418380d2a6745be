package machine

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// probePause is the time between two looks at something a daemon waits for.
const probePause = 50 * time.Millisecond

// await returns when the need is met; see Daemon.WaitFor.
func (k *keeper) await(need string) {
	kind, what, _ := strings.Cut(need, " ")
	if kind == "done" {
		<-k.done[what]
		return
	}
	for !met(kind, what) {
		time.Sleep(probePause)
	}
}

func met(kind, what string) bool {
	if kind == "https" {
		return answers(what)
	}
	conn, err := net.DialTimeout(kind, what, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// answers reports whether a GET of the URL returns 200.
func answers(url string) bool {
	authority, err := os.ReadFile(pkiDir + "/ca.crt")
	if err != nil {
		return false
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	client := http.Client{Transport: transport, Timeout: 2 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}
