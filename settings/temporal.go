package settings

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/squall-chaos/squall/workflows/connect"
)

// Temporal has the address of Temporal and the credentials.
type Temporal struct {
	Address   string `mapstructure:"temporal-address"`
	Namespace string `mapstructure:"temporal-namespace"`
	TLS       bool   `mapstructure:"temporal-tls"`
	TLSCA     string `mapstructure:"temporal-tls-ca"`
	TLSCert   string `mapstructure:"temporal-tls-cert"`
	TLSKey    string `mapstructure:"temporal-tls-key"`
	APIKey    string `mapstructure:"temporal-api-key"`
	KeyFile   string `mapstructure:"temporal-api-key-file"`
}

// TemporalFlags adds the flags of Temporal, with their defaults.
func TemporalFlags(flags *pflag.FlagSet) {
	flags.String("temporal-address", "127.0.0.1:7233", "host:port of the Temporal frontend")
	flags.String("temporal-namespace", "default", "Temporal namespace; each cluster needs its own")
	flags.Bool("temporal-tls", false, "use TLS; implied by the next three settings and by an API key")
	flags.String("temporal-tls-ca", "", "file of the CA that signed Temporal's certificate; empty: the CAs of the system")
	flags.String("temporal-tls-cert", "", "file of the client certificate")
	flags.String("temporal-tls-key", "", "file of the client certificate's key")
	flags.String("temporal-api-key-file", "", "file of the API key, read for each call; no key if the file does not exist")
}

// ReadTemporal reads the flags of TemporalFlags and the environment, for a program without
// a file of settings. A flag overrides the environment.
func ReadTemporal(flags *pflag.FlagSet) (Temporal, error) {
	var t Temporal
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	TemporalFlags(own)
	v := environment(apiKey)
	var err error
	own.VisitAll(func(f *pflag.Flag) {
		if err == nil {
			err = v.BindPFlag(f.Name, flags.Lookup(f.Name))
		}
	})
	if err == nil {
		err = v.UnmarshalExact(&t)
	}
	if err != nil {
		return t, fmt.Errorf("read settings: %w", err)
	}
	return t, t.Check()
}

// Check refuses settings that can never reach Temporal.
func (t Temporal) Check() error {
	return Required(map[string]string{"temporal-address": t.Address, "temporal-namespace": t.Namespace})
}

// Connect is t as workflows/connect takes it.
func (t Temporal) Connect() connect.Settings {
	return connect.Settings{
		Address: t.Address, Namespace: t.Namespace, TLS: t.TLS, TLSCA: t.TLSCA,
		TLSCert: t.TLSCert, TLSKey: t.TLSKey, APIKey: t.APIKey, APIKeyFile: t.KeyFile,
	}
}
