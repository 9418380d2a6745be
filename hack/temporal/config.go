package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/temporal"
)

// clusterName is Temporal's name of the only cluster it knows about.
const clusterName = "active"

func newServer(cfg Config) (temporal.Server, error) {
	settings, err := serverConfig(cfg)
	if err != nil {
		return nil, err
	}
	logger := log.NewZapLogger(log.BuildZapLogger(log.Config{Stdout: true, Level: cfg.LogLevel}))
	s, err := temporal.NewServer(
		temporal.ForServices(temporal.DefaultServices),
		temporal.InterruptOn(temporal.InterruptCh()), // Start returns only then
		temporal.WithConfig(settings),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithDynamicConfigClient(dynamicSettings()),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the server: %w", err)
	}
	return s, nil
}

// dynamicSettings has one partition for each task queue: with one machine more
// of them only add hops between a task and the worker that polls for it.
func dynamicSettings() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
	}
}

func serverConfig(cfg Config) (*config.Config, error) {
	ip, port, err := splitAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	services, err := serviceConfigs(ip, port, cfg.Database+".ports")
	if err != nil {
		return nil, err
	}
	return &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: "127.0.0.1"},
		},
		Persistence:         persistenceConfig(cfg.Database),
		Services:            services,
		PublicClient:        config.PublicClient{HostPort: cfg.Address},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: cfg.Address},
			},
		},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
	}, nil
}

// serviceConfigs gives the frontend its address and each other part free ports
// on the loopback device. The file keeps them for the next start: parts that
// come back elsewhere within seconds are looked for where they were, for up to
// a minute.
func serviceConfigs(frontendIP string, frontendPort int, file string) (map[string]config.Service, error) {
	all, err := keptPorts(file, 2*len(temporal.DefaultServices))
	if err != nil {
		return nil, err
	}
	services := map[string]config.Service{}
	for i, name := range temporal.DefaultServices {
		ports := all[2*i:]
		rpc := config.RPC{GRPCPort: ports[0], MembershipPort: ports[1], BindOnLocalHost: true}
		if name == "frontend" {
			rpc = config.RPC{GRPCPort: frontendPort, MembershipPort: ports[1], BindOnIP: frontendIP}
		}
		services[name] = config.Service{RPC: rpc}
	}
	return services, nil
}

func newUI(cfg Config) (*server.Server, error) {
	ip, port, err := splitAddress(cfg.UIAddress)
	if err != nil {
		return nil, err
	}
	return server.NewServer(server_options.WithConfigProvider(&uiconfig.Config{
		TemporalGRPCAddress: cfg.Address,
		Host:                ip,
		Port:                port,
		EnableUI:            true,
		DefaultNamespace:    cfg.Namespace,
		DisableNewsFetch:    true,
		CORS:                uiconfig.CORS{CookieInsecure: true},
	})), nil
}

// keptPorts are those in the file, if they are free, or else new ones.
func keptPorts(file string, count int) ([]int, error) {
	var ports []int
	if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &ports) == nil && len(ports) == count && free(ports) {
		return ports, nil
	}
	ports, err := freePorts(count)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(ports)
	if err != nil {
		return nil, err
	}
	return ports, os.WriteFile(file, text, 0o600)
}

func free(ports []int) bool {
	for _, port := range ports {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		defer l.Close()
	}
	return true
}

// freePorts asks the kernel for free ports of the loopback device. All are held
// until the last is known, so that none comes twice.
func freePorts(count int) ([]int, error) {
	var ports []int
	for range count {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
