// Package settings reads the settings of a program of Squall from a file, the environment
// and flags. A setting has one name in three spellings: temporal-address in the file,
// SQUALL_TEMPORAL_ADDRESS in the environment, --temporal-address as a flag. A flag
// overrides the environment, the environment overrides the file. A key or flag that no
// setting has is an error.
package settings

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Program describes the settings of a program.
type Program struct {
	Name string
	// About is a sentence for the help.
	About string
	// Flags adds the program's own flags, with their defaults.
	Flags func(*pflag.FlagSet)
	// WithoutFlag are keys of the file and the environment that have no flag.
	WithoutFlag []string
}

// apiKey has no flag: every user of a machine can read command lines.
const apiKey = "temporal-api-key"

// Read fills into, a pointer to a struct whose fields have mapstructure tags. It returns
// pflag.ErrHelp after it has written the requested help to out.
func (p Program) Read(args []string, out io.Writer, into any) error {
	flags := p.flagSet(out)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if rest := flags.Args(); len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q: settings are flags, see --help", rest[0])
	}
	v := environment(append(p.WithoutFlag, apiKey)...)
	path, _ := flags.GetString("config")
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && err == nil {
			err = v.BindPFlag(f.Name, f)
		}
	})
	if err == nil && path != "" {
		err = readFile(v, path)
	}
	if err == nil {
		err = v.UnmarshalExact(into)
	}
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	return nil
}

// Variable is the name of a setting in the environment.
func Variable(setting string) string {
	return "SQUALL_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// environment reads SQUALL_..., for flags that are bound to it and for these keys.
func environment(keys ...string) *viper.Viper {
	v := viper.New()
	v.SetEnvPrefix("squall")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	for _, key := range keys {
		v.SetDefault(key, "")
	}
	return v
}

// readFile adds a file's settings to v, which knows all keys.
func readFile(v *viper.Viper, path string) error {
	known := v.AllKeys()
	file := viper.New()
	file.SetConfigFile(path)
	file.SetConfigType("yaml")
	if err := file.ReadInConfig(); err != nil {
		return fmt.Errorf("file %s: %w", path, err)
	}
	for key := range file.AllSettings() {
		if !slices.Contains(known, key) {
			slices.Sort(known)
			return fmt.Errorf("file %s: unknown key %q; known are: %s", path, key, strings.Join(known, ", "))
		}
	}
	return v.MergeConfigMap(file.AllSettings())
}

func (p Program) flagSet(out io.Writer) *pflag.FlagSet {
	flags := pflag.NewFlagSet(p.Name, pflag.ContinueOnError)
	flags.SetOutput(out)
	flags.SortFlags = false
	flags.Usage = func() {
		keys := strings.Join(append([]string{apiKey}, p.WithoutFlag...), ", ")
		_, _ = fmt.Fprintf(out, "%s\n\n%s\n"+
			"Every flag can be set as SQUALL_<NAME> in the environment and as a key of the file;\n"+
			"These settings have no flag: %s.\n"+
			"The API server is found as kubectl finds it: KUBECONFIG, or the pod's service account.\n", p.About, flags.FlagUsages(), keys)
	}
	flags.String("config", os.Getenv("SQUALL_CONFIG"), "YAML file of settings; unknown keys are errors")
	TemporalFlags(flags)
	p.Flags(flags)
	flags.String("log-level", "info", "debug, info, warn or error")
	return flags
}

// Required names the first setting that is empty.
func Required(values map[string]string) error {
	var empty []string
	for name, value := range values {
		if value == "" {
			empty = append(empty, name)
		}
	}
	if len(empty) == 0 {
		return nil
	}
	return fmt.Errorf("setting %s is empty", slices.Min(empty))
}
