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

# The history of a finished disruption is kept for 35 days.
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
	temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 840h \
		--description "disruptions of Squall"

# The attributes of workflows/start. Existing ones stay as they are. A new namespace
# needs a moment until all of Temporal knows it.
attempts=30
until temporal operator search-attribute create --namespace "$TEMPORAL_NAMESPACE" \
	--name SquallPhase --type Keyword \
	--name SquallNamespace --type Keyword \
	--name SquallKinds --type KeywordList \
	--name SquallStuck --type Bool \
	--name SquallEnding --type Keyword \
	--name SquallVerdict --type Keyword \
	--name SquallTargets --type Int; do
	attempts=$((attempts - 1))
	if [ "$attempts" -eq 0 ]; then
		echo "cannot create the search attributes of $TEMPORAL_NAMESPACE" >&2
		exit 1
	fi
	sleep 1
done
