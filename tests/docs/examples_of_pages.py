#!/usr/bin/env python3
"""The ```cpp blocks of the documents as sources, so that a compiler reads them as a reader would.

    examples_of_pages.py write FOLDER PAGE...   writes FOLDER/examples_0.cpp, ...; those that are there and would be
                                                the same are left alone
    examples_of_pages.py check PAGE...          fails where a block is not the text of the file that it quotes

A block is one of three:

- a program, with `int main(`. It is compiled as it stands, with its own includes and no others.
- a piece of the reader's program, which includes LibTorch and has a `model`, a `loader` that gives batches,
  `images` and `labels`. It may have names of its own for the same. After `<!-- example: goes on -->` it continues
  the piece before it on the page.
- a quotation, after `<!-- example: file examples/classify.cpp -->`. The build compiles that file.

Blocks with the same includes share a source, because LibTorch's headers take ten seconds and more.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

READERS_HEADERS = ["<torch/torch.h>"]
READERS_WORDS = """  torch::nn::Sequential model(torch::nn::Linear(4, 2));
  std::vector<torch::data::Example<>> batches;
  auto* loader = &batches;
  torch::Tensor images, labels;
"""

MARK = re.compile(r"^<!-- example: (.+) -->$")
INCLUDE = re.compile(r"^#include ([<\"].+[>\"])", re.MULTILINE)


class Block:
    def __init__(self, page, line, mark, text):
        self.page, self.line, self.mark, self.text = page, line, mark, text
        self.quoted = mark[len("file "):] if mark.startswith("file ") else None
        self.headers = INCLUDE.findall(text)
        # Lines stay where they are, so that the compiler's messages lead to the page.
        self.body = f'#line {line} "{page}"\n' + INCLUDE.sub("", text)


def blocks_of(page):
    mark, start, lines = "", 0, None
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        if lines is None:
            found = MARK.match(line)
            if found:
                mark = found.group(1)
            elif line.startswith("```cpp"):
                start, lines = number + 1, []
        elif line.startswith("```"):
            yield Block(page, start, mark, "\n".join(lines) + "\n")
            mark, lines = "", None
        else:
            lines.append(line)


def sources_of(pages):
    """The text for each set of headers."""
    sources = {}
    number = 0
    for page in pages:
        headers, pieces = [], ""
        for block in blocks_of(page):
            if block.quoted:
                continue
            number += 1
            if "int main(" in block.text:
                included = block.headers
                text = f"namespace example_{number} {{\n{block.body}}}\n"
            else:
                if block.mark != "goes on":
                    headers, pieces = [], ""
                headers, pieces = headers + block.headers, pieces + block.body
                included = READERS_HEADERS + headers
                text = f"void example_{number}() {{\n{READERS_WORDS}  {{\n{pieces}  }}\n}}\n"
            key = tuple(sorted(set(included)))
            sources[key] = sources.get(key, "") + text
    return sources


def write(folder, pages):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = set()
    for number, (headers, text) in enumerate(sorted(sources_of(pages).items())):
        path = folder / f"examples_{number}.cpp"
        text = "".join(f"#include {header}\n" for header in headers) + text
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        written.add(path)
    for path in set(folder.glob("examples_*.cpp")) - written:
        path.unlink()


def check(pages):
    wrong = []
    for page in pages:
        for block in blocks_of(page):
            if block.quoted and (ROOT / block.quoted).read_text(encoding="utf-8") != block.text:
                wrong.append(f"{page}:{block.line}: the block is not the text of {block.quoted}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "write":
        write(arguments[0], arguments[1:])
    else:
        check(arguments)
