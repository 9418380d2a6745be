package main

import (
	"fmt"
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger writes one JSON object per line: "level", "ts", "msg" and the keys of
// the line. The time has the form that the other programs write, so that their
// lines can be sorted together.
func newLogger(level string, to io.Writer) (*zap.Logger, error) {
	parsed, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("%sLOG_LEVEL: %w", envPrefix, err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(zapcore.AddSync(to)), parsed)), nil
}

// metrics counts what happens. An injector opens no port, so its counts go
// into the log or nowhere. The zero value counts nowhere.
type metrics struct{ log *zap.Logger }

func newMetrics(sink string, log *zap.Logger) metrics {
	if sink != "log" {
		return metrics{}
	}
	return metrics{log: log}
}

func (m metrics) count(what, result string) {
	if m.log != nil {
		m.log.Info("metric", zap.String("name", "squall_injector_"+what+"_total"), zap.String("result", result))
	}
}
