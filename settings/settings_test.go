package settings

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

type config struct {
	Temporal Temporal `mapstructure:",squash"`
	Image    string   `mapstructure:"image"`
	Hosts    []struct {
		Name string `mapstructure:"name"`
	} `mapstructure:"hosts"`
	LogLevel string `mapstructure:"log-level"`
}

var program = Program{
	Name: "example", About: "example does nothing.", WithoutFlag: []string{"hosts"},
	Flags: func(flags *pflag.FlagSet) { flags.String("image", "built-in", "image of something") },
}

func read(t *testing.T, file string, args ...string) (config, string, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "settings")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config="+path)
	}
	var c config
	var out bytes.Buffer
	err := program.Read(args, &out, &c)
	return c, out.String(), err
}

func TestWhatWeighsMore(t *testing.T) {
	for _, test := range []struct {
		name, file, env, flag, want string
	}{
		{"nothing is set", "", "", "", "built-in"},
		{"a file beats the default", "image: file", "", "", "file"},
		{"the environment beats the file", "image: file", "environment", "", "environment"},
		{"a flag beats the environment", "image: file", "environment", "flag", "flag"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var args []string
			if test.env != "" {
				t.Setenv("SQUALL_IMAGE", test.env)
			}
			if test.flag != "" {
				args = append(args, "--image="+test.flag)
			}
			if c, _, err := read(t, test.file, args...); err != nil || c.Image != test.want {
				t.Errorf("image = %q, %v; want %q", c.Image, err, test.want)
			}
		})
	}
}

func TestSettingsWithoutAFlag(t *testing.T) {
	t.Setenv("SQUALL_TEMPORAL_API_KEY", "secret")
	c, _, err := read(t, "hosts:\n- name: a\n- name: b\n")
	if err != nil || c.Temporal.APIKey != "secret" || len(c.Hosts) != 2 || c.Hosts[1].Name != "b" {
		t.Errorf("config = %+v, %v; want the key of the environment and the hosts of the file", c, err)
	}
	if diff := cmp.Diff("127.0.0.1:7233", c.Temporal.Connect().Address); diff != "" {
		t.Errorf("address of Temporal (-want +got):\n%s", diff)
	}
}

func TestAFileNamedByTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings")
	if err := os.WriteFile(path, []byte("image: named\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SQUALL_CONFIG", path)
	if c, _, err := read(t, ""); err != nil || c.Image != "named" {
		t.Errorf("image = %q, %v; want that of the file", c.Image, err)
	}
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name, file string
		args       []string
		want       string
	}{
		{"an unknown key in the file", "imagee: x", nil, `unknown key "imagee"; known are: hosts, image, log-level`},
		{"an unknown key within a setting", "hosts:\n- nam: a\n", nil, "nam"},
		{"an unknown flag", "", []string{"--imagee=x"}, "imagee"},
		{"a secret on the command line", "", []string{"--temporal-api-key=x"}, "unknown flag"},
		{"a word that is no flag", "", []string{"start"}, `"start"`},
		{"a file that is not there", "", []string{"--config=/does/not/exist"}, "/does/not/exist"},
		{"a file that is no YAML", "a: b: c", nil, "read settings"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, _, err := read(t, test.file, test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
}

func TestTemporalAlone(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Bool("other", false, "")
	TemporalFlags(flags)
	t.Setenv("SQUALL_TEMPORAL_ADDRESS", "environment:7233")
	t.Setenv("SQUALL_TEMPORAL_API_KEY", "secret")
	if err := flags.Parse([]string{"--temporal-namespace=flag"}); err != nil {
		t.Fatal(err)
	}
	got, err := ReadTemporal(flags)
	if want := (Temporal{Address: "environment:7233", Namespace: "flag", APIKey: "secret"}); err != nil || got != want {
		t.Errorf("ReadTemporal() = %+v, %v; want %+v", got, err, want)
	}
	if err := flags.Set("temporal-namespace", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTemporal(flags); err == nil || !strings.Contains(err.Error(), "temporal-namespace") {
		t.Errorf("error = %v, want one that names the empty setting", err)
	}
}

func TestHelp(t *testing.T) {
	_, help, err := read(t, "", "--help")
	if !errors.Is(err, pflag.ErrHelp) {
		t.Fatalf("error = %v, want %v", err, pflag.ErrHelp)
	}
	for _, want := range []string{"example does nothing.", "--image", "--temporal-tls-ca", "--log-level", "temporal-api-key, hosts", "SQUALL_<NAME>"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help does not have %q:\n%s", want, help)
		}
	}
}

func TestLogger(t *testing.T) {
	if _, err := Logger("loud"); err == nil || !strings.Contains(err.Error(), `"loud"`) {
		t.Errorf("error = %v, want one that names the level", err)
	}
	if _, err := Logger("warn"); err != nil {
		t.Error(err)
	}
}
