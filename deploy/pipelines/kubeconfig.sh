#!/bin/sh
# Writes a kubeconfig for the service account of rbac.yaml to stdout, without your own
# credentials. The token ends after 30 days, or earlier if the API server allows less:
# sh kubeconfig.sh staging chaos-ci > chaos.kubeconfig
set -eu
namespace=$1 account=$2
cluster() { kubectl config view --minify --raw --flatten --output "jsonpath={.clusters[0].cluster.$1}"; }
token=$(kubectl --namespace "$namespace" create token "$account" --duration 720h)
cat <<END
apiVersion: v1
kind: Config
current-context: chaos
contexts: [{name: chaos, context: {cluster: chaos, user: chaos, namespace: "$namespace"}}]
clusters: [{name: chaos, cluster: {server: "$(cluster server)", certificate-authority-data: "$(cluster certificate-authority-data)"}}]
users: [{name: chaos, user: {token: "$token"}}]
END
