# Short names for the usual commands; CMakePresets.json and scripts/ do the work.
#
#   make test PRESET=dev      file by file: the build for those who change files and test again and again
#   make test CMAKE_ARGS=-DTorch_DIR=<directory of TorchConfig.cmake>

PRESET ?= release
CMAKE_ARGS ?=
# Compiling against LibTorch takes much memory, so no more jobs than cores.
JOBS ?= $(shell nproc)
BUILD := build/$(PRESET)

.PHONY: help demo tool test bench deb format lint clean configure

help:
	@echo "make demo     train LeNet-5 on Fashion-MNIST with three optimizers, write a report"
	@echo "make tool     build the command line tool, adaact"
	@echo "make test     build everything and run the tests"
	@echo "make bench    build and run the benchmarks"
	@echo "make deb      build Debian packages: libadaact0.1, libadaact-dev, adaact"
	@echo "make format   rewrite the sources with clang-format"
	@echo "make lint     check their includes, clang-format and clang-tidy"
	@echo "make clean    remove build/"
	@echo
	@echo "PRESET=$(PRESET), CMAKE_ARGS=, JOBS=$(JOBS)"
	@echo "  release      optimized; the sources of a room are compiled as one, so that all is built soon"
	@echo "  dev          the same, file by file: longer, but a changed file is compiled alone"
	@echo "  debug, asan, tsan"

demo: tool
	@scripts/demo.sh $(BUILD)/app/adaact

tool:
	@scripts/bootstrap.sh --demo
	@$(MAKE) --no-print-directory configure
	@cmake --build $(BUILD) --target adaact_tool -j $(JOBS)
	@echo "the tool is $(BUILD)/app/adaact"

test:
	@scripts/bootstrap.sh
	@$(MAKE) --no-print-directory configure
	@cmake --build --preset $(PRESET) -j $(JOBS)
	@# Of tests side by side, OpenMP's threads that wait would keep the others from working.
	@OMP_WAIT_POLICY=passive ctest --preset $(PRESET) -j $(JOBS)

bench:
	@scripts/bootstrap.sh
	@$(MAKE) --no-print-directory configure
	@cmake --build $(BUILD) --target benchmarks -j $(JOBS)
	@scripts/bench.sh $(BUILD)

# Always with Debian's LibTorch, which is what the packages depend on.
deb:
	@env -u Torch_DIR -u CMAKE_PREFIX_PATH scripts/bootstrap.sh --deb
	@env -u Torch_DIR -u CMAKE_PREFIX_PATH $(MAKE) --no-print-directory configure PRESET=deb \
	  CMAKE_ARGS="$(CMAKE_ARGS) -DTorch_DIR=/usr/lib/$$(c++ -print-multiarch)/cmake/Torch"
	@cmake --build build/deb -j $(JOBS) --target adaact adaact_lab adaact_tool
	@cd build/deb && cpack >cpack.log 2>&1 || { cat cpack.log; exit 1; }
	@ls build/deb/packages/*.deb

format:
	@scripts/bootstrap.sh --lint
	@scripts/lint.sh --fix-format

lint:
	@scripts/bootstrap.sh --lint
	@scripts/lint.sh

clean:
	rm -rf build

# CMake says much; what matters is the LibTorch that it chose, or else everything.
configure:
	@mkdir -p build
	@cmake --preset $(PRESET) $(CMAKE_ARGS) >build/configure-$(PRESET).log 2>&1 \
	  || { cat build/configure-$(PRESET).log; exit 1; }
	@grep "^-- LibTorch" build/configure-$(PRESET).log
