#!/bin/sh
# Creates the namespace TEMPORAL_NAMESPACE and the search attributes of Squall's
# workflows at TEMPORAL_ADDRESS. Running it again changes nothing. It works
# with any Temporal server, so an installation without compose can use it too.
set -eu

: "${TEMPORAL_ADDRESS:?host:port of the Temporal server}" "${TEMPORAL_NAMESPACE:=default}"
export TEMPORAL_ADDRESS TEMPORAL_NAMESPACE

attempts=60
until temporal operator cluster health; do
	attempts=$((attempts - 1))
	if [ "$attempts" -eq 0 ]; then
		echo "no healthy Temporal server at $TEMPORAL_ADDRESS" >&2
		exit 1
	fi
	sleep 2
done

# The history of a finished disruption is kept for 30 days.
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
	temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 720h \
		--description "disruptions of Squall"

# A new namespace takes a moment to be known everywhere.
attempts=30
until existing=$(temporal operator search-attribute list --namespace "$TEMPORAL_NAMESPACE"); do
	attempts=$((attempts - 1))
	if [ "$attempts" -eq 0 ]; then
		echo "cannot list the search attributes of $TEMPORAL_NAMESPACE" >&2
		exit 1
	fi
	sleep 1
done

for attribute in SquallPhase:Keyword SquallNamespace:Keyword SquallKinds:KeywordList SquallStuck:Bool SquallTargets:Int; do
	name=${attribute%:*}
	if printf '%s\n' "$existing" | grep -qw "$name"; then
		continue
	fi
	temporal operator search-attribute create --namespace "$TEMPORAL_NAMESPACE" --name "$name" --type "${attribute#*:}"
done
