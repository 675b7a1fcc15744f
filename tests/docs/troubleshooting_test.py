#!/usr/bin/env python3
"""Every message that docs/troubleshooting.md shows stands in the sources."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Between two literals of one text: nothing but the end of a line, or a value in between.
SEAM = re.compile(r'"\s*\n\s*"')


def texts_of_sources():
    texts = []
    for folder, endings in (("src", (".cpp", ".h", ".cu")), ("app", (".cpp", ".h")), ("cmake", (".cmake", ".in"))):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in endings:
                joined = SEAM.sub("", path.read_text(encoding="utf-8"))
                texts += LITERAL.findall(joined)
    return [re.sub(r"\$\{\w+\}|@\w+@", "…", text) for text in texts]


def messages():
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    page_table = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    return re.findall(r"^\*\*`([^`]+)`\*\*", page, re.MULTILINE) + page_table


def main():
    texts = texts_of_sources()
    found = messages()
    missing = []
    for message in found:
        for piece in message.split("…"):
            piece = piece.strip(" '")
            if len(piece) > 4 and not any(piece in text for text in texts):
                missing.append(f"docs/troubleshooting.md: no source says '{piece}' of '{message}'")
    if len(found) < 15:
        missing.append(f"docs/troubleshooting.md: {len(found)} messages were found, expected more")
    sys.exit("\n".join(missing) if missing else 0)


if __name__ == "__main__":
    main()
