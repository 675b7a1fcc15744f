#!/usr/bin/env bash
# Parses every source of the libraries and the tool by itself: other builds compile the sources of a folder as one
# and do not see what a file forgot to include. No code is generated. With "tests" after the folder those too, which
# takes twice as long.
#
#   cmake --preset dev && scripts/check_each_file.sh build/dev [tests]
set -euo pipefail
build=$1
folders="src app ${2:-}"
# It would read half a gigabyte of precompiled header once more for each.
export CCACHE_DISABLE=1

# The precompiled header that the commands name.
if ninja -C "$build" -t query adaact_pch >/dev/null 2>&1; then
  ninja -C "$build" adaact_pch >/dev/null
fi
python3 - "$build/compile_commands.json" $folders <<'PY' >"$build/parse_commands"
import json, os, re, sys
folders = tuple(os.path.abspath(folder) + "/" for folder in sys.argv[2:])
for entry in json.load(open(sys.argv[1])):
    if not entry["file"].startswith(folders) or not entry["file"].endswith(".cpp"):
        continue
    command = re.sub(r" -o \S+", " -o /dev/null", entry["command"])
    print(f"cd {entry['directory']} && {command} -fsyntax-only", end="\0")
PY
echo "parsing $(tr -cd '\0' <"$build/parse_commands" | wc -c) sources one by one"
xargs -0 -P "$(nproc)" -I '{}' bash -c '{}' <"$build/parse_commands"
