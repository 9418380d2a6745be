package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/config"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// searchAttributes are what Squall's workflows set, by name and type. The same
// names are created on other Temporal installations by hand or by the CLI.
var searchAttributes = map[string]enumspb.IndexedValueType{
	"SquallPhase":     enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	"SquallNamespace": enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	"SquallKinds":     enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
	"SquallStuck":     enumspb.INDEXED_VALUE_TYPE_BOOL,
	"SquallTargets":   enumspb.INDEXED_VALUE_TYPE_INT,
}

func persistenceConfig(database string) config.Persistence {
	return config.Persistence{
		DefaultStore:     sqliteplugin.PluginName,
		VisibilityStore:  sqliteplugin.PluginName,
		NumHistoryShards: 1,
		DataStores: map[string]config.DataStore{
			sqliteplugin.PluginName: {SQL: storeConfig(database)},
		},
	}
}

// storeConfig names the database file and its journal. A write-ahead log with
// normal synchronisation survives the death of the process at any moment; the
// last transactions may be lost only with the machine.
func storeConfig(database string) *config.SQL {
	return &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: database,
		ConnectAttributes: map[string]string{
			"mode":         "rwc",
			"journal_mode": "wal",
			"synchronous":  "normal",
		},
	}
}

// prepareStore makes the database file with its tables, the namespace and the
// search attributes. It changes nothing if they are there. The tables are made
// under another name first, so that a kill cannot leave half of them.
func prepareStore(cfg Config) error {
	_, err := os.Stat(cfg.Database)
	if errors.Is(err, fs.ErrNotExist) {
		err = createDatabase(cfg.Database)
	}
	if err != nil {
		return fmt.Errorf("prepare the store %s: %w", cfg.Database, err)
	}
	namespace, err := sqlite.NewNamespaceConfig(clusterName, cfg.Namespace, false, searchAttributes)
	if err != nil {
		return fmt.Errorf("describe namespace %s: %w", cfg.Namespace, err)
	}
	namespace.Detail.Config.Retention = durationpb.New(cfg.Retention)
	if err := sqlite.CreateNamespaces(storeConfig(cfg.Database), namespace); err != nil {
		return fmt.Errorf("create namespace %s: %w", cfg.Namespace, err)
	}
	return nil
}

func createDatabase(database string) error {
	if err := os.MkdirAll(filepath.Dir(database), 0o755); err != nil {
		return err
	}
	half := database + ".new"
	for _, leftover := range []string{half, half + "-wal", half + "-shm"} {
		if err := os.Remove(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	settings := storeConfig(half)
	settings.ConnectAttributes["journal_mode"] = "delete" // one file, to be renamed as a whole
	if err := sqlite.SetupSchema(settings); err != nil {
		return err
	}
	return os.Rename(half, database)
}
