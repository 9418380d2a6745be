//go:build linux

package main

import (
	"fmt"
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger writes one JSON object per line: "level", "ts", "msg" and the keys of the line.
// The time has the format of the other programs, so that their lines can be sorted
// together.
func newLogger(level string, to io.Writer) (*zap.Logger, error) {
	parsed, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("%sLOG_LEVEL: %w", envPrefix, err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(zapcore.AddSync(to)), parsed)), nil
}
