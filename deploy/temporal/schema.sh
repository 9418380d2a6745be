#!/bin/sh
# Creates Temporal's two databases, or brings them up to the schema of this
# version. Running it again changes nothing. Needs SQL_HOST, SQL_USER and
# SQL_PASSWORD, and the admin-tools image of the server's version.
set -eu

versions=${SCHEMA_DIR:-/etc/temporal/schema/postgresql/v12}

sql() {
	database=$1
	shift
	temporal-sql-tool --plugin postgres12 --ep "$SQL_HOST" --port "${SQL_PORT:-5432}" \
		--user "$SQL_USER" --db "$database" "$@"
}

for part in temporal:temporal temporal_visibility:visibility; do
	database=${part%:*}
	sql "$database" create
	sql "$database" setup-schema -v 0.0
	sql "$database" update-schema -d "$versions/${part#*:}/versioned"
done
