# Everything that can be done with this checkout. The long work is in programs
# of hack/, which print what they do and how long it takes.
.DEFAULT_GOAL := help
SHELL := /bin/bash -o pipefail
.DELETE_ON_ERROR:

ROOT := $(CURDIR)
NODES ?= 2
# What make bench measures.
N ?= 1,10,100,1000,5000,10000
PARTS ?= targets,together,waiting,aborts,people,churn,large,away,cluster
# Part churn: how many pods come and go, and how many of them at once. Part large: how
# many pods there are. Part away: how long the API server does not answer.
CHURN ?= 10000
BATCH ?= 50
CROWD ?= 50000
AWAY ?= 5m
PROGRAMS := worker crdbridge injector
# How long make fuzz tries each target.
TIME ?= 1m
# The development cluster's directory.
DEV ?= $(ROOT)/.dev
DEV_KUBECONFIG := $(DEV)/kubeconfig
# The images of make release and make manifests.
REGISTRY ?= squall.local
TAG ?= dev
# The directory that make publish pushes.
RELEASE ?=
# What make test-long runs; empty: every part.
PART ?=
# What the choices of make operations and make campaign follow from; empty: the commit.
SEED ?=
# How tests of make test-long print what they do: the suite wants -json.
VERBOSE ?= -v
# What make pictures draws; empty: every kind.
KINDS ?=
# Flags of make soak; bin/soak --help lists them.
SOAK ?=
# The pages whose language make verify checks by the rules in hack/vale: all but
# docs/bench.md, whose tables and captions test/bench writes.
WRITTEN := README.md CONTRIBUTING.md SECURITY.md MAINTAINERS.md CODE_OF_CONDUCT.md CHANGELOG.md hack/README.md
WRITTEN += $(wildcard deploy/components/*/README.md overlays/README.md deploy/chart/README.md)
WRITTEN += $(filter-out docs/bench.md,$(wildcard $(addprefix docs/,*.md kinds/*.md reference/*.md decisions/*.md contributing/*.md)))
# The directories of the programs whose texts make messages checks.
PROSE := activities api cli crdbridge injector kube settings worker workflows
# The pages that make vale checks.
PAGES ?= $(WRITTEN)
# The mutant that make mutants tries; empty: every one.
MUTANT ?=
# A cluster of the user's own, by KUBECONFIG=... on the command line or in the
# environment; empty means the development cluster.
KUBECONFIG ?=
# One setting for tests and programs, so that nothing is compiled twice.
export CGO_ENABLED := 0
# The cluster's programs are built so, too: what both need is compiled once.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath)
export KUBECONFIG SQUALL_TEMPORAL_ADDRESS DEV WORKLOAD POINT

devcluster := cd hack && go run ./devcluster
tool := go tool -modfile=$(ROOT)/hack/tools.mod

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: build
build: ## static programs into bin/: worker, crdbridge, injector, and squall for people
	go build -tags grpcnotrace -ldflags "-s -w" -o bin/ $(addprefix ./,$(PROGRAMS)) ./test/probe
	go build -ldflags "-s -w -X github.com/squall-chaos/squall/cli/version.Version=$$(git describe --tags --always --dirty)" -o bin/squall ./cli && ln -sf squall bin/kubectl-squall

.PHONY: generate
generate: ## deep copies, CRDs and schemas for editors from the API types, and docs/reference from the CRDs and the command line
	$(tool) controller-gen object paths=./api/... crd paths=./api/... output:crd:dir=deploy/crds
	go run ./api/crdgen
	go test -ldflags=-w -vet=off -count=1 -run '^TestReferencePage$$' ./cli -update

.PHONY: images
images: build ## images of the programs as archives in bin/, loaded into the development cluster if it runs
	cd hack && go build -o ../bin/image ./image
	bin/image -o bin/squall.tar -name squall.local/squall:dev -entrypoint /worker bin/worker=/worker bin/crdbridge=/crdbridge
	bin/image -o bin/cli.tar -name squall.local/cli:dev -entrypoint /squall bin/squall=/squall
	bin/image -o bin/injector.tar -name squall.local/injector:dev -entrypoint /injector bin/injector=/injector
	bin/image -o bin/probe.tar -name squall.local/probe:dev -entrypoint /probe bin/probe=/probe bin/injector=/injector
	@if [ -n "$$KUBECONFIG" ] && [ "$$KUBECONFIG" != $(DEV_KUBECONFIG) ]; then echo "KUBECONFIG is set: give bin/*.tar to that cluster's nodes or registry, and name the images by SQUALL_IMAGE and SQUALL_INJECTOR_IMAGE"; \
	else cd hack && go run ./devcluster images --dir $(DEV) ../bin/squall.tar ../bin/cli.tar ../bin/injector.tar ../bin/probe.tar; fi

.PHONY: dev-up
dev-up: ## a real Kubernetes cluster and Temporal on this machine (NODES=2); as root
	$(devcluster) up --dir $(DEV) --nodes $(NODES)

.PHONY: dev-down
dev-down: ## end that cluster; its state stays, until devcluster down --wipe
	$(devcluster) down --dir $(DEV)

.PHONY: demo
demo: ## Squall disrupts real containers and lets go of them, measured (KUBECONFIG=... for a cluster of yours)
	cd hack && go run ./demo

.PHONY: uninstall
uninstall: build ## take Squall out of the cluster of KUBECONFIG (by default the development cluster), once nothing of it is left
	@export KUBECONFIG="$${KUBECONFIG:-$(DEV_KUBECONFIG)}"; bin/squall uninstall --yes && kubectl delete --ignore-not-found -k deploy

.PHONY: e2e
e2e: ## end-to-end tests against the cluster of KUBECONFIG, by default the development cluster with Squall installed
	set -a; [ -n "$$KUBECONFIG" ] || . $(DEV)/env; go test -tags e2e -count=1 -parallel 8 -timeout 20m -v ./test/e2e

.PHONY: ui
ui: ## a person's way through Temporal's web interface, in a real browser (SHOTS=directory for pictures)
	@if [ -z "$$KUBECONFIG" ] && [ -f $(DEV)/env ]; then set -a; . $(DEV)/env; set +a; fi; cd test/ui && SQUALL_UI_SHOTS=$(abspath $(SHOTS)) go test -count=1 -timeout 6m -v .

.PHONY: crash-matrix
crash-matrix: ## worker, bridge and injector are killed at every step they take, and the end compared; as root (WORKLOAD=..., POINT=...)
	[ -n "$$WORKLOAD$$POINT" ] || go test -count=1 -timeout 30m $(VERBOSE) -run KilledBeforeEachStep ./injector -share 100
	SQUALL_REQUIRE=1 go test -count=1 -timeout 90m $(VERBOSE) ./test/matrix -run TestCrashMatrix -share 100 -slots 32 -workload "$$WORKLOAD" -point "$$POINT"

.PHONY: operations
operations: ## 1,000 operations of disruptions on their targets with each driver, while everything goes wrong that can: nothing is left on a pod (SEED=1)
	SQUALL_REQUIRE=1 go test -count=1 -timeout 60m $(VERBOSE) ./test/operations -operations 1000 $(if $(SEED),-seed $(SEED))

.PHONY: soak
soak: ## 1,000 disruptions while all that carries them out is killed at random: half an hour on the development cluster with Squall installed, as root (SOAK="-disruptions 100 -seed 1")
	go build -o bin/ ./test/soak ./test/probe
	cd hack && go build -o ../bin/devcluster ./devcluster
	set -a; . $(DEV)/env; set +a; bin/soak -dev $(DEV) $(SOAK)

.PHONY: campaign
campaign: ## Disruptions generated from the schema, and single fields changed while they run: twenty minutes on the development cluster with Squall installed (SEED=1)
	set -a; [ -n "$$KUBECONFIG" ] || . $(DEV)/env; go test -tags e2e -count=1 -timeout 90m $(VERBOSE) ./test/campaign $(if $(SEED),-seed $(SEED)) -attempts 0 -slots 12 -corruptions 120

.PHONY: figures
figures: ## how long the injector takes for each kind; as root
	SQUALL_REQUIRE=1 go test ./injector -run '^TestHowLong' -count=1 -timeout 50m -v -figures 20

.PHONY: bench
bench: ## what disruptions cost beside bare pods (docs/bench.md): N=1,1000 and PARTS=targets,together,waiting,aborts,people,churn,large,away,cluster choose, CHURN=10000 BATCH=50 CROWD=50000 AWAY=1h size the last, WRITE=1 renews the document
	@if [ -z "$$KUBECONFIG" ] && [ -f $(DEV)/env ]; then set -a; . $(DEV)/env; set +a; fi; SQUALL_REQUIRE=1 go test ./test/bench -run '^TestBench$$' -count=1 -timeout 3h -v \
		-targets $(N) -kinds 2 -several 1x1,1x10,10x10,100x1 -runs 0 -idle 1000 -sample 2m -lost 100 -aborts 20 -planned 10000 -nodes 1,10,30 -kills 20 -held 30 -holding 1m \
		-churned $(CHURN) -standing 200 -batch $(BATCH) -crowd $(CROWD) -crowded 1000 -away $(AWAY) -ending 20 -parts $(PARTS) $(if $(WRITE),-write)

.PHONY: pictures
pictures: ## what each kind does to a target, drawn from runs on the development cluster with Squall installed, into docs/images/kinds: ten minutes (KINDS="cpu-pressure dns-disruption" for some)
	@if [ -z "$$KUBECONFIG" ] && [ -f $(DEV)/env ]; then set -a; . $(DEV)/env; set +a; fi; go run ./test/pictures $(KINDS)

.PHONY: recording
recording: build ## squall demo in a terminal, as README shows it, into docs/images/demo.svg; on the development cluster with Squall installed and nothing beside it
	@if [ -z "$$KUBECONFIG" ] && [ -f $(DEV)/env ]; then set -a; . $(DEV)/env; set +a; fi; cd hack/recording && go run . -o $(ROOT)/docs/images/demo.svg -as "squall demo --seconds 5" $(ROOT)/bin/squall demo --seconds 5

.PHONY: image-temporal
image-temporal: ## image of the Temporal that deploy/components/temporal brings, of the development cluster's program and for its nodes
	cd hack && go build -o ../bin/image ./image
	bin/image -o bin/temporal.tar -name squall.local/temporal:dev -entrypoint /temporal -user 65532:65532 $(DEV)/bin/temporal=/temporal
	$(devcluster) images --dir $(DEV) ../bin/temporal.tar

.PHONY: freeze
freeze: ## before a tag: the histories recorded since the last release stay as they are from now on (docs/upgrades.md)
	go run ./test/histories/freeze

.PHONY: release
release: ## everything of a version into dist/: images, squall, manifests, chart, bill of materials, checksums (REGISTRY=name under which the images will be, PLATFORMS=linux-amd64 for some)
	cd hack/release && go run . -o $(ROOT)/dist -registry "$(REGISTRY)" -platforms "$(PLATFORMS)"

.PHONY: publish
publish: ## push the images and the chart of a release into its registry, with the credentials of docker login (RELEASE=dist/VERSION)
	@[ -n "$(RELEASE)" ] || { echo "name the directory of a release: make publish RELEASE=dist/VERSION"; exit 2; }
	cd hack/release && go run . -push "$(abspath $(RELEASE))"

.PHONY: manifests
manifests: ## manifests and Helm chart into dist/TAG, for images that are in REGISTRY already (REGISTRY=... TAG=...)
	cd hack/release && go run . -o $(ROOT)/dist -registry "$(REGISTRY)" -tag "$(TAG)"

.PHONY: site
site: ## the documents as a site in bin/site, every link followed, and opened in a real browser (SHOTS=directory for pictures)
	cd hack && go run ./site
	cd test/ui && SQUALL_UI_SHOTS=$(abspath $(SHOTS)) SQUALL_SITE=$(ROOT)/bin/site go test -tags site -count=1 -v -run '^TestSite$$' .

.PHONY: check
check: ## format, vet, rules of the code and tests that need no root, server or cluster: under a minute
	@cd hack && go run ./check

.PHONY: loop
loop: ## the tests of one package (PKG=activities RUN=TestClean); as root if they need it
	@cd hack && go run ./check -loop -run '$(RUN)' $(PKG)

.PHONY: test-unit
test-unit: ## unit tests of all modules; what cannot run here fails instead of being skipped
	cd hack && go run ./suite packages build compile measure unit

.PHONY: verify
verify: generate ## generated code, format, vet, staticcheck, tidy modules, rules of the code, lint of the chart, workflowcheck, language of pages
	git diff --exit-code -- api deploy/admission.yaml deploy/crds deploy/schemas docs/reference
	@untracked=$$(git ls-files --others --exclude-standard -- api deploy/crds deploy/schemas docs/reference); [ -z "$$untracked" ] || { echo "generated or new, and not in git: $$untracked"; exit 1; }
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt -w $$unformatted"; exit 1; }
	@for module in $$(git ls-files '*go.mod'); do (cd $$(dirname $$module) && go mod tidy -diff) || { echo "go mod tidy, in $$(dirname $$module)"; exit 1; }; done
	@modules=$$(cd hack && go run ./check -modules) || exit 1; for module in $$modules; do (cd $$module && go vet -tags site,e2e ./... && $(tool) staticcheck -tags site,e2e ./...) || { echo "in module $$module"; exit 1; }; done
	go test -count=1 ./test
	cd test/chart && go test -count=1 -run 'TestLint|TestReadme|TestSchema|TestEveryValue' .
	$(tool) workflowcheck -test=false ./workflows/...
	$(tool) actionlint -shellcheck= -pyflakes=
	@mkdir -p bin && sed 's|squall-chaos/squall/.github/|./.github/|; s|/run@.*|/run|' deploy/pipelines/github.yaml > bin/chaos.yaml # with the action as it is here
	$(tool) actionlint -shellcheck= -pyflakes= bin/chaos.yaml
	$(MAKE) --no-print-directory vale PAGES="$(WRITTEN)"
	$(MAKE) --no-print-directory messages

.PHONY: vale
vale: ## check the language of pages by the rules in hack/vale (PAGES="docs/cli.md docs/cron.md"; a directory means its pages)
	@ls -d $(PAGES) > /dev/null
	@cd hack/tools/vale && go build -o $(ROOT)/bin/vale github.com/vale-cli/vale/v3/cmd/vale
	@bin/vale --config=.vale.ini --no-global --output=line $(PAGES)

.PHONY: messages
messages: ## check the language of errors, events, conditions, help and log lines by the same rules
	@cd hack && go run ./messages -o ../bin/messages $(PROSE)
	@$(MAKE) --no-print-directory vale PAGES=bin/messages

.PHONY: vet-macos
vet-macos: ## go vet for macOS, where only the injector and test/probe are left out; minutes, the first time
	export GOOS=darwin; go vet -tags e2e ./... && cd hack && go vet ./check

.PHONY: fuzz
fuzz: ## each parser that meets what others write, on random input, for TIME=1m
	@git grep -E '^func Fuzz' -- '*_test.go' | sed -E 's/^(.*)\/[^\/]*:func (Fuzz[A-Za-z]*).*/\1 \2/' | while read -r package target; do \
		echo "$$package $$target"; go test $(VERBOSE) "./$$package" -run '^$$' -fuzz "^$$target$$" -fuzztime $(TIME) || exit 1; done

.PHONY: vulncheck
vulncheck: ## known vulnerabilities in what the programs are built from; needs the database at vuln.go.dev
	@said=$$($(tool) govulncheck ./... 2>&1); code=$$?; echo "$$said"; case "$$said" in *"fetching vulnerabilities"*) \
		echo "NOTHING WAS CHECKED: the database of vulnerabilities cannot be reached from here (GOVULNDB names another one)";; esac; exit $$code

.PHONY: mutants
mutants: ## break the product by each patch of test/mutants, and see its tests fail; as root (MUTANT=name for one)
	cd hack && go run ./mutants -run "$(MUTANT)"

.PHONY: test
test: ## all tests, on a machine with nothing but Go and Debian's packages; as root
	cd hack && go run ./suite

.PHONY: test-kernel
test-kernel: ## the injector's tests on Linux 6.1 with cgroup v2 alone, in User-Mode Linux and in QEMU; as root
	cd hack && go run ./suite -long uml diskfailure qemu

.PHONY: test-long
test-long: ## what takes too long for every change, at most an hour a part (PART=uml, diskfailure, qemu, race, matrix, figures, devcluster, mutants, fuzz, vulncheck, campaign, soak, bench, bench-large, bench-churn, release, bench-cluster or v2node; else all); as root
	cd hack && go run ./suite -long $(PART)
