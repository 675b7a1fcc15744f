#!/usr/bin/env bash
# Installs what a build needs and is not there yet. Says nothing if nothing is missing.
#
#   scripts/bootstrap.sh           compiler, build tools, libraries
#   scripts/bootstrap.sh --lint    also clang-format and clang-tidy
#   scripts/bootstrap.sh --demo    also the Fashion-MNIST data set, but no MPI, which the demo does not need
#   scripts/bootstrap.sh --browser also Chromium, in which a test looks at the report
#   scripts/bootstrap.sh --fuzz    also clang with libFuzzer
#   scripts/bootstrap.sh --deb     also what makes Debian packages
#   scripts/bootstrap.sh --python  also what virtual environments of Python and modules for it need
#
# With Torch_DIR or CMAKE_PREFIX_PATH in the environment LibTorch is taken to be there already.
set -euo pipefail

lint=no
demo=no
browser=no
fuzz=no
deb=no
python=no
for argument in "$@"; do
  case $argument in
    --lint) lint=yes ;;
    --demo) demo=yes ;;
    --browser) browser=yes ;;
    --fuzz) fuzz=yes ;;
    --deb) deb=yes ;;
    --python) python=yes ;;
    *)
      echo "usage: scripts/bootstrap.sh [--lint] [--demo] [--browser] [--fuzz] [--deb] [--python]" >&2
      exit 2
      ;;
  esac
done

# A tool that is on the PATH will do, wherever it came from: "command package".
tools=("c++ g++" "cmake cmake" "ninja ninja-build" "gnuplot gnuplot-nox" "python3 python3")
# Libraries are looked for as packages.
packages=(nlohmann-json3-dev libcli11-dev libcpp-httplib-dev libgtest-dev libbenchmark-dev
  zlib1g-dev libjpeg62-turbo-dev libpng-dev libwebp-dev)
if [ -z "${Torch_DIR:-}${CMAKE_PREFIX_PATH:-}" ]; then
  # LibTorch only recommends a BLAS and has the reference one without it, a tenth as fast. Of the three
  # variants of OpenBLAS this one shares the threads of LibTorch instead of fighting with them.
  packages+=(libtorch-dev libopenblas0-openmp)
fi
if [ $lint = yes ]; then
  tools+=("clang-format clang-format" "clang-tidy clang-tidy")
fi
if [ $fuzz = yes ]; then
  # Debian's clang only recommends its sanitizers and libFuzzer; symbols of a stack come from llvm.
  tools+=("clang++ clang" "llvm-symbolizer llvm")
  packages+=(libclang-rt-dev)
fi
if [ $deb = yes ]; then
  # CPack finds out what programs depend on by dpkg-shlibdeps.
  tools+=("dpkg-shlibdeps dpkg-dev")
fi
if [ $browser = yes ]; then
  tools+=("chromium chromium")
fi
if [ $demo = yes ]; then
  packages+=(dataset-fashion-mnist)
elif [ $deb = no ]; then
  # Another MPI is as good, if its compiler is on the PATH. Debian's packages are built without.
  tools+=("mpicxx libopenmpi-dev" "mpirun openmpi-bin")
fi
# Debian's python3 comes without ensurepip, others with it.
if [ $python = yes ] && ! python3 -c 'import ensurepip' 2>/dev/null; then
  packages+=(python3-venv)
fi
# Nor with its headers.
if [ $python = yes ] && ! python3 -c 'import os, sysconfig
raise SystemExit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2>/dev/null; then
  packages+=(python3-dev)
fi

missing=()
for tool in "${tools[@]}"; do
  read -r command package <<<"$tool"
  command -v "$command" >/dev/null || missing+=("$package")
done

if ! command -v apt-get >/dev/null; then
  # Not Debian: the libraries may be anywhere, and CMake will name those that it does not find.
  if [ ${#missing[@]} -gt 0 ]; then
    echo "bootstrap: missing (by their Debian names): ${missing[*]}; please install them" >&2
    exit 1
  fi
  exit 0
fi

for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

as_root=()
by_hand="apt-get update && apt-get install --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "bootstrap: missing packages; as root, run: $by_hand" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "bootstrap: installing ${missing[*]}"
# Without the second variable debconf notes, on a minimal system, that apt-utils is not installed. dpkg would
# wait for the disk after each file of some 400 packages; sync does so once for all of them.
install=(env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes
  apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-unsafe-io -o DPkg::Lock::Timeout=120 "${missing[@]}")
# A fresh system has no package lists yet, an old one may have outdated ones.
if ! "${as_root[@]}" apt-get update -qq ||
  ! "${as_root[@]}" "${install[@]}" >/dev/null; then
  echo "bootstrap: failed; as root, run: $by_hand" >&2
  exit 1
fi
sync
