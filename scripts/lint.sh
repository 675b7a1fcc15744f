#!/usr/bin/env bash
# Checks the includes and the format of every source file and runs clang-tidy on the library.
#
#   scripts/lint.sh                 check
#   scripts/lint.sh --fix-format    rewrite the files with clang-format instead
set -euo pipefail
cd "$(dirname "$0")/.."

patterns=('*.h' '*.cpp' '*.cu' '*.cuh')
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  mapfile -t listed < <(git ls-files --cached --others --exclude-standard -- "${patterns[@]}")
else
  mapfile -t listed < <(find . \( -path ./build -o -path ./.git \) -prune -o -type f \
    \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print)
fi
files=()
for file in "${listed[@]}"; do
  # Git also lists a file that was deleted but not yet staged as such.
  if [ -f "$file" ]; then files+=("$file"); fi
done

if [ "${1:-}" = --fix-format ]; then
  clang-format -i "${files[@]}"
  exit 0
fi

failed=0
echo "lint: includes"
scripts/check_includes.py --drawn docs/images/includes.svg || failed=1
# Public headers say the same in every build.
if grep -rnE '^ *# *(if|elif).*ADAACT_WITH' include; then
  echo "lint: a public header that differs from build to build" >&2
  failed=1
fi
# GoogleTest makes names of classes from those of tests and asks for none with an underscore.
if grep -rnE '^ *[A-Z_]*TEST(_[FP])?\((\w*_\w*,|\w+, *\w*_)' tests; then
  echo "lint: names of tests with an underscore" >&2
  failed=1
fi

echo "lint: clang-format, ${#files[@]} files"
clang-format --dry-run -Werror "${files[@]}" || failed=1

# A tree of its own, without the precompiled header: GCC writes it in a form that clang cannot read.
build=build/lint
mkdir -p build
if ! cmake -G Ninja -S . -B $build -DCMAKE_BUILD_TYPE=Release -DADAACT_PRECOMPILED_HEADER=OFF \
  -DADAACT_BUILD_TESTS=OFF -DADAACT_BUILD_BENCH=OFF -DADAACT_BUILD_EXAMPLES=OFF \
  -DCMAKE_UNITY_BUILD=ON \
  >build/lint.log 2>&1; then
  cat build/lint.log >&2
  exit 1
fi

# The sources of each folder of src/ as one: clang-tidy takes a quarter of a minute for LibTorch's headers
# and a second for a file of ours. That file is then included, and not the main one; the filter of
# headers in .clang-tidy lets its findings through. A check that looks at main files alone would see
# nothing here. Sources that need CUDA are seen where the LibTorch at hand has it, those that need MPI, NCCL or nvJPEG
# where there is one.
mapfile -t sources < <(sed -n 's|^ *"file": "\(.*/CMakeFiles/adaact[_a-z]*\.dir/Unity/.*\)",\{0,1\}$|\1|p' \
  $build/compile_commands.json | grep -v '/app/')
mapfile -t sources < <(ls -S "${sources[@]}") # the longest first, for all cores to end together
included=$(cat "${sources[@]}" | grep '^#include' | grep -vE '_cuda\.cpp"|/(mpi|nccl|nvjpeg)_[a-z_]+\.cpp"' | sort)
all=$(find "$PWD/src" -name '*.cpp' ! -name '*_cuda.cpp' ! -name 'mpi_*.cpp' ! -name 'nccl_*.cpp' ! -name 'nvjpeg_*.cpp' -printf '#include "%p"\n' | sort)
if [ "$included" != "$all" ]; then
  echo "lint: sources that clang-tidy would not see, or that are gone:" >&2
  diff <(printf '%s\n' "$included") <(printf '%s\n' "$all") >&2 || true
  exit 1
fi
echo "lint: clang-tidy, ${#sources[@]} folders"
# One process per folder and core. Its report goes to stdout; stderr only counts the warnings that
# were suppressed in other people's headers, unless clang-tidy itself failed.
tidy() {
  local report status=0
  report=$(clang-tidy -p "$1" --quiet -warnings-as-errors='*' "$2" 2>&1) || status=$?
  if [ $status -ne 0 ]; then
    printf '%s\n' "$report" | grep -vE '^[0-9]+ warnings? (generated|treated as errors?)' || true
    return 1
  fi
}
export -f tidy
printf '%s\0' "${sources[@]}" |
  xargs -0 -P "$(nproc)" -I '{}' bash -c 'tidy "$1" "$2"' tidy $build '{}' || failed=1

if [ $failed -eq 0 ]; then echo "lint: clean"; fi
exit $failed
