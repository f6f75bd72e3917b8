# make build | demo | demo-jax | docs | test | test-slow | test-jax | fuzz | mutate | coverage | sanitize | lint | bench | bench-search | reproduce | clean
# Targets build in .venv and build, and rebuild only outdated files. MXNet 1.9.1 needs Python 3.10 to 3.12. Targets that only need
# JAX also run on Python 3.13. The first suitable Python on the PATH is used.
JAX_ALONE := $(filter demo-jax test-jax,$(MAKECMDGOALS))
SUITABLE := -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, $(if $(JAX_ALONE),13,12)))' 2>/dev/null
PYTHON ?= $(shell for p in python3.11 python3.12 python3.10 $(if $(JAX_ALONE),python3.13) python3 python; do $$p $(SUITABLE) && command -v $$p && break; done)
CXX ?= g++

VENV := .venv/bin
INSTALLED := .venv/.installed
TOOLS := .venv/.tools
CORE := build/.core
BUILT := build/.built
CORE_TESTED := build/.core_tested
CORE_TIDIED := build/.core_tidied
NATIVE := CMakeLists.txt setup.py $(shell find csrc -type f -not -name '*.md')
CPP := $(shell find csrc tests -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')
NEED_PYTHON := $(if $(JAX_ALONE),JAX needs Python 3.10 to 3.13,MXNet 1.9.1 needs Python 3.10 to 3.12): install python3.12, python3.12-venv and python3.12-dev, or \
	`uv python install 3.12` where the system is newer; make PYTHON=/path/to/python3.12 names one
NEED_OTHER_PYTHON := .venv has a Python that MXNet 1.9.1 does not run on: remove the folder .venv, and run make once more with Python 3.10 to 3.12
NEED_VENV = This Python cannot make virtual environments: install $(notdir $(1))-venv
NEED_COMPILER := There is no C++ compiler $(CXX): install g++, or say make CXX=/path/to/g++
# Lets scripts import Tofu from any folder.
FIND_SOURCES := import pathlib, sys, sysconfig; pathlib.Path(sysconfig.get_path("purelib"), "tofu-sources.pth").write_text(sys.argv[1] + "\n")
# Time limit of a C++ test, in seconds.
CORE_TEST_TIMEOUT := 120

.PHONY: build demo demo-jax docs test test-slow test-jax fuzz mutate coverage sanitize lint bench bench-search reproduce clean

build: $(BUILT)

demo: $(BUILT)
	$(VENV)/python -m benchmarks.demo

demo-jax: $(CORE)
	$(VENV)/python examples/jax/transformer.py

# Build the documents as a site in build/site. A broken link is an error.
docs: $(TOOLS) $(BUILT)
	NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --quiet --strict
	@echo "The site is build/site/index.html"

# TESTS holds arguments of pytest, such as the tests to run.
test: TESTS ?= -m "not slow" tests
test-slow: TESTS ?= -m slow tests
test test-slow: $(TOOLS) $(BUILT) $(CORE_TESTED)
	$(VENV)/python -m pytest -n 2 --dist worksteal $(TESTS)

# Run the tests of the JAX engine, with the newest JAX on Python 3.13.
test-jax: TESTS ?= tests/jax
test-jax: $(TOOLS) $(CORE)
	$(VENV)/python -m pytest -n 2 --dist worksteal $(TESTS)

SECONDS ?= 600
fuzz: $(TOOLS) $(BUILT)
	$(VENV)/python -m tests.campaigns.fuzz --seconds $(SECONDS) --jobs 2

lint: $(TOOLS) $(CORE_TIDIED)
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(VENV)/python csrc/check_includes.py
	$(VENV)/clang-format --dry-run -Werror $(CPP)

# clang-tidy over csrc/core takes about twenty seconds and runs only after a change there.
$(CORE_TIDIED): $(wildcard csrc/core/*/*.cc csrc/core/*/*.h) .clang-tidy | $(TOOLS)
	$(VENV)/clang-tidy --quiet $(filter %.cc,$^) -- -std=c++17 -Icsrc
	@mkdir -p build && touch $@

# Print the mutation score of core modules. MODULE selects modules, COUNT is the number of mutants of each, ROOT is another checkout.
MUTATE := build/mutate
COUNT ?= 20
ROOT ?= .
mutate: $(TOOLS) $(BUILT) $(MUTATE)/.installed
	$(MUTATE)/bin/python tests/campaigns/mutate.py --root $(ROOT) --count $(COUNT) $(MODULE)

$(MUTATE)/.installed:
	$(VENV)/python -m venv $(MUTATE)
	$(MUTATE)/bin/pip install --quiet --disable-pip-version-check cosmic-ray==8.7.0
	@touch $@

# Run all tests over instrumented modules, in copies under build. Takes much longer than make test.
coverage sanitize: $(TOOLS) $(BUILT)
	.ci/instrumented $@

reproduce: $(TOOLS) $(BUILT)
	$(VENV)/python -m benchmarks.evaluation.search_table
	$(VENV)/python -m benchmarks.evaluation.partition_picture
	$(VENV)/python -m benchmarks.evaluation

bench-search: $(TOOLS) $(BUILT)
	$(VENV)/python -m benchmarks.search stages
	$(VENV)/python -m benchmarks.search scaling
	$(VENV)/python -m benchmarks.search optimality

bench: $(TOOLS) $(BUILT)
	$(VENV)/python -m benchmarks

clean:
	rm -rf build dist *.egg-info tofu/*.so demo-output

.venv/bin/python:
	@test -n "$(PYTHON)" && $(PYTHON) $(SUITABLE) || { echo '$(NEED_PYTHON)'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(call NEED_VENV,$(PYTHON))"; exit 1; }
	$(PYTHON) -m venv .venv

$(INSTALLED): requirements.txt | .venv/bin/python
	@echo "Installing the engines and what the demos need into .venv: this takes about a minute"
	@sed '/^# What follows is for tests/,$$d' requirements.txt > .venv/of-demos.txt
	$(VENV)/python -m pip install --quiet --disable-pip-version-check -r .venv/of-demos.txt
	@$(VENV)/python -c '$(FIND_SOURCES)' "$(CURDIR)"
	@touch $@

$(TOOLS): requirements.txt $(INSTALLED)
	@echo "Installing what tests, linters and documents need into .venv"
	$(VENV)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

# Build only the core, which suffices for JAX.
$(CORE): $(INSTALLED) $(NATIVE)
	@command -v $(CXX) >/dev/null || { echo "$(NEED_COMPILER)"; exit 1; }
	@echo "Compiling the core: the first time takes about a minute on two cores"
	CXX=$(CXX) $(VENV)/python setup.py _core
	@touch $@

$(BUILT): $(INSTALLED) $(NATIVE)
	@$(VENV)/python $(SUITABLE) || { echo '$(NEED_OTHER_PYTHON)'; exit 1; }
	@command -v $(CXX) >/dev/null || { echo "$(NEED_COMPILER)"; exit 1; }
	@echo "Compiling the native code: the first time takes 2 to 5 minutes on two cores"
	CXX=$(CXX) $(VENV)/python setup.py
	@touch $(CORE) $@

# Run the tests of csrc/core and csrc/cuda under AddressSanitizer and UBSan.
$(CORE_TESTED): $(BUILT) $(wildcard tests/core/* tests/cuda/*.cc tests/cuda/*.h tests/tests.cmake)
	@echo "Compiling and running the C++ tests: the first time takes about 2 minutes on two cores"
	@CXX=$(CXX) $(VENV)/cmake -S . -B build/core-tests -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/ninja --log-level=WARNING \
	    -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/python -DTOFU_ONLY_CORE_TESTS=ON -DTOFU_SANITIZE=ON -DTOFU_WARNINGS=$${TOFU_WARNINGS:-OFF} >/dev/null
	@$(VENV)/cmake --build build/core-tests -j 2 -- --quiet
	@$(VENV)/ctest --test-dir build/core-tests --output-on-failure -j 2 --timeout $(CORE_TEST_TIMEOUT) --no-tests=ignore
	@touch $@
