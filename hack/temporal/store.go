package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/jmoiron/sqlx"
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
// last transactions may be lost only with the machine. It grows to 32 MB before it is
// copied into the file, eight times SQLite's default: many pages are written again before that.
func storeConfig(database string) *config.SQL {
	return &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: database,
		ConnectAttributes: map[string]string{
			"mode":               "rwc",
			"journal_mode":       "wal",
			"synchronous":        "normal",
			"wal_autocheckpoint": "8000", // pages of 4 KiB
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
	if err := dropSpareIndexes(half); err != nil {
		return fmt.Errorf("drop indexes that no search needs: %w", err)
	}
	return os.Rename(half, database)
}

// searchedIndexes are those by which the table of workflows is searched here: the
// most frequent queries of Temporal's web interface and Squall, with the columns
// of SquallPhase, SquallNamespace and SquallStuck. Temporal's schema has fifty
// more, mostly for unused attributes, and every write of a workflow's attributes
// updates each of them. A search for anything else reads the whole table.
var searchedIndexes = []string{"default_idx", "by_workflow_id", "by_workflow_type", "by_status", "by_keyword_01", "by_keyword_02", "by_bool_01",
	"by_temporal_scheduled_by_id", "by_temporal_namespace_division"}

func dropSpareIndexes(database string) (err error) {
	db, err := sqlx.Open("sqlite", database) // the driver that Temporal's plugin registers
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.Beginx()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	var all []string
	if err := tx.Select(&all, "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql IS NOT NULL"); err != nil {
		return err
	}
	for _, name := range searchedIndexes {
		if !slices.Contains(all, name) {
			return fmt.Errorf("this version of Temporal has no index %s", name)
		}
	}
	for _, name := range all {
		if slices.Contains(searchedIndexes, name) {
			continue
		}
		if _, err := tx.Exec("DROP INDEX " + name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return tx.Commit()
}
