#!/usr/bin/env bash
# Installs a build into a temporary place and builds and runs examples/find_package against it. Where the build has the
# Python package, that is installed and used too.
#
#   scripts/check_install.sh build/release
set -euo pipefail

if [ $# -ne 1 ] || [ ! -f "$1/CMakeCache.txt" ]; then
  echo "usage: scripts/check_install.sh BUILD_DIR" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

quietly() {
  if ! "$@" >"$work/log" 2>&1; then
    cat "$work/log" >&2
    echo "check_install: failed: $*" >&2
    exit 1
  fi
}

# An install needs the libraries and the tool; whoever calls this may have built a single target.
quietly cmake --build "$build" --target adaact adaact_lab adaact_tool
quietly cmake --install "$build" --prefix "$work/prefix"

# Neither Torch_DIR nor CMAKE_PREFIX_PATH may help here: the installed package has to know its
# LibTorch by itself.
quietly env -u Torch_DIR -u CMAKE_PREFIX_PATH \
  cmake -G Ninja -S "$root/examples/find_package" -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
  -Dadaact_DIR="$(dirname "$(find "$work/prefix" -name adaactConfig.cmake)")"
quietly cmake --build "$work/build"

# The library may have been built without CUDA or with it; on a machine without a GPU both run.
"$work/build/regression"
"$work/build/train_lenet5"
quietly "$work/prefix/bin/adaact" train --out "$work/run" --dataset synthetic --limit-train 256 \
  --limit-test 64 --epochs 1

if grep -q '^ADAACT_BUILD_PYTHON:BOOL=ON$' "$build/CMakeCache.txt"; then
  # A component of its own, to which pip adds the package's other files.
  quietly cmake --build "$build" --target adaact_python
  quietly cmake --install "$build" --prefix "$work/python" --component python
  find "$root/python/adaact" -maxdepth 1 -type f -exec cp {} "$work/python/adaact/" \;
  python=$(sed -n 's/^Python_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
  quietly env PYTHONPATH="$work/python" PYTHONDONTWRITEBYTECODE=1 "$python" \
    "$root/scripts/check_python_package.py" "$work/python"
fi
echo "check_install: the installed package works"
