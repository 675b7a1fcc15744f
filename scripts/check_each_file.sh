#!/usr/bin/env bash
# Parses every source of a build's compile_commands.json by itself: other builds compile the sources of a folder
# as one and do not see what a file forgot to include. No code is generated, so it takes a third of a build.
#
#   cmake --preset dev && scripts/check_each_file.sh build/dev
set -euo pipefail
build=$1

# The precompiled header that the commands name.
if ninja -C "$build" -t query adaact_pch >/dev/null 2>&1; then
  CCACHE_DISABLE=1 ninja -C "$build" adaact_pch >/dev/null
fi
# Past ccache, which would read half a gigabyte of precompiled header once more for each.
python3 - "$build/compile_commands.json" <<'PY' >"$build/parse_commands"
import json, re, sys
for entry in json.load(open(sys.argv[1])):
    if not entry["file"].endswith(".cpp") or entry["file"].endswith("/pch.cpp"):
        continue
    command = re.sub(r"^\S*ccache ", "", entry["command"])
    command = re.sub(r" -o \S+", " -o /dev/null", command)
    print(f"cd {entry['directory']} && {command} -fsyntax-only", end="\0")
PY
echo "parsing $(tr -cd '\0' <"$build/parse_commands" | wc -c) sources one by one"
xargs -0 -P "$(nproc)" -I '{}' bash -c '{}' <"$build/parse_commands"
