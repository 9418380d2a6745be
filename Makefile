.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: generate
generate: ## deep copies and CRDs from the API types
	go tool -modfile=hack/tools.mod controller-gen object paths=./api/... crd paths=./api/... output:crd:dir=deploy/crds
	go run ./api/crdgen
