#!/usr/bin/env bash
# Fails if a relative link in README.md or in another document leads to a file or a section that does not
# exist, or if README.md mentions a `make` command that the Makefile does not have.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
complain() {
  echo "check_readme: $*" >&2
  failed=1
}

if [ ! -f README.md ]; then
  echo "check_readme: there is no README.md" >&2
  exit 1
fi

# The targets of [text](target), ![text](target) and src="target" or href="target", outside code.
links() {
  awk '/^ *```/ { code = !code; next } !code' "$1" | sed 's/`[^`]*`//g' |
    grep -oE '\]\([^) ]+|(src|href)="[^"]+' | sed -E 's/^(\]\(|(src|href)=")//' || true
}

# The names by which links refer to the sections of a document, as GitHub makes them of headings.
sections() {
  awk '/^ *```/ { code = !code; next } !code' "$1" | sed -nE 's/^#+ +//p' |
    tr '[:upper:]' '[:lower:]' | sed -E 's/[^[:alnum:] _-]//g; s/ /-/g'
}

shopt -s nullglob
for file in README.md docs/*.md results/README.md bench/*.md; do
  while IFS= read -r target; do
    case $target in
      "" | *://* | mailto:*) continue ;;
    esac
    path=$(dirname "$file")/${target%%#*}
    [ "${target:0:1}" != "#" ] || path=$file
    if [ ! -e "$path" ]; then
      complain "$file links to $target, which does not exist"
    elif [[ $target == *.md#* || $target == "#"* ]]; then
      grep -qxF -- "${target#*#}" < <(sections "$path") ||
        complain "$file links to $target, a section that does not exist"
    fi
  done < <(links "$file")
done

# Commands are in code blocks, at the start of a line or after a shell operator, or in `backquotes`.
# Elsewhere "make" is a verb.
make_targets() {
  {
    awk '/^ *```/ { code = !code; next } code' README.md |
      grep -oE '(^|[;&|] *|\$ *)make( +[^ ;&|#]+)+' || true
    awk '/^ *```/ { code = !code; next } !code' README.md | grep -oE '`make( +[^` ]+)+' || true
  } | sed -E 's/^.*make +//' | tr ' ' '\n' | grep -E '^[a-z][a-z_-]*$' | sort -u
}

while IFS= read -r target; do
  grep -qE "^$target:" Makefile || complain "README.md mentions 'make $target', which does not exist"
done < <(make_targets)

exit $failed
