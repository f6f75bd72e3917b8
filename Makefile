# make build | demo | test | lint | bench | clean. Everything happens inside .venv and build; nothing is rebuilt without a reason.
PYTHON ?= $(firstword $(shell command -v python3.11 python3))
CXX ?= g++

VENV := .venv/bin
INSTALLED := .venv/.installed
BUILT := build/.built
CORE_TESTED := build/.core_tested
NATIVE := CMakeLists.txt setup.py $(shell find csrc -type f)
CPP := $(shell find csrc tests -name '*.cc' -o -name '*.h')
# A test that hangs is a failure: C++ tests get this many seconds each.
CORE_TEST_TIMEOUT := 120

.PHONY: build demo test lint bench clean

build: $(BUILT)

demo: $(BUILT)
	$(VENV)/python -m benchmarks.demo

test: $(BUILT) $(CORE_TESTED)
	$(VENV)/python -m pytest -n 2

lint: $(INSTALLED)
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy tofu
	$(VENV)/lint-imports
	$(VENV)/clang-format --dry-run -Werror $(CPP)

bench: $(BUILT)
	$(VENV)/python -m benchmarks

clean:
	rm -rf build dist *.egg-info tofu/*.so demo-output

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 is needed: install python3.11 and python3.11-venv, or say make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "Python 3.11 is needed, $(PYTHON) is $$($(PYTHON) -V 2>&1): install python3.11 and python3.11-venv, or say make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: install python3.11-venv"; exit 1; }
	$(PYTHON) -m venv .venv

$(INSTALLED): requirements.txt requirements-build.txt requirements-dev.txt | .venv/bin/python
	$(VENV)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(BUILT): $(INSTALLED) $(NATIVE)
	@command -v $(CXX) >/dev/null || { echo "$(CXX), the C++ compiler, is not installed: install g++"; exit 1; }
	CXX=$(CXX) $(VENV)/python -W ignore setup.py --quiet build_ext --inplace
	@touch $@

# The tests of csrc/core, as built for users and once more under AddressSanitizer and UBSan.
$(CORE_TESTED): $(BUILT) $(wildcard tests/core/*)
	for mode in OFF ON; do \
	  PATH=$(CURDIR)/$(VENV):$$PATH cmake -S . -B build/tests-sanitize-$$mode -G Ninja --log-level=WARNING \
	      -DTOFU_ONLY_CORE_TESTS=ON -DTOFU_SANITIZE=$$mode -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/python \
	  && $(VENV)/cmake --build build/tests-sanitize-$$mode -j 2 \
	  && $(VENV)/ctest --test-dir build/tests-sanitize-$$mode --output-on-failure --timeout $(CORE_TEST_TIMEOUT) --no-tests=ignore || exit 1; \
	done
	@touch $@
