"""scripts/check_includes.py on small made-up trees: what it must find, and what it must let through."""

import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "check_includes.py")

PAGE = """# Design
```
src/
  io/        files
  optim/     the registry; adaact/adaact.h
    base/    what all share; adaact/optim/options.h
    adan/ lamb/    an algorithm each
  ── libfirst ends here ──
  train/     training
app/         the tool
tests/  docs/
```
"""

TREE = {
    "docs/design.md": PAGE,
    "include/adaact/adaact.h": "#include <adaact/optim/adan.h>\n",
    "include/adaact/optim/adan.h": "#include <adaact/optim/options.h>\n",
    "include/adaact/optim/options.h": "#include <string>\n",
    "src/io/file.h": "",
    "src/optim/registry.cpp": '#include <adaact/optim/adan.h>\n#include "optim/lamb/lamb.h"\n',
    "src/optim/base/names.h": '#include "io/file.h"\n',
    "src/optim/adan/adan.cpp": '#include <adaact/optim/adan.h>\n#include "optim/base/names.h"\n',
    "src/optim/lamb/lamb.h": '#include "optim/base/names.h"\n',
    "src/train/trainer.h": '#include "io/file.h"\n',
    "app/main.cpp": '#include "output.h"\n#include "train/trainer.h"\n',
    "app/output.h": "",
}


def check(changes, *arguments):
    """Exit status and output of the script for the tree with these files instead of, or besides, its own."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**TREE, **changes}.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([sys.executable, SCRIPT, "--root", root, *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout


class CheckIncludes(unittest.TestCase):
    def expect_problem(self, changes, *words):
        status, output = check(changes)
        self.assertEqual(status, 1, output)
        for word in words:
            self.assertIn(word, output)

    def test_a_tree_in_order_passes(self):
        self.assertEqual(check({}), (0, ""))

    def test_an_include_of_a_unit_below_is_named_with_file_and_line(self):
        self.expect_problem({"src/io/file.h": '\n#include "train/trainer.h"\n'},
                            "src/io/file.h:2: io includes train (src/train/trainer.h)", "stands below",
                            "a cycle: src/io, src/train")

    def test_units_on_one_line_do_not_include_one_another(self):
        self.expect_problem({"src/optim/lamb/lamb.h": "#include <adaact/optim/adan.h>\n"},
                            "src/optim/lamb/lamb.h:1: optim/lamb includes optim/adan", "stands beside")

    def test_a_public_header_is_of_the_folder_with_its_source(self):
        self.expect_problem({"include/adaact/optim/adan.h": '#include "optim/lamb/lamb.h"\n'},
                            "include/adaact/optim/adan.h:1: optim/adan includes optim/lamb")

    def test_files_of_a_folder_come_after_the_folders_within_it(self):
        self.expect_problem({"src/optim/registry.h": "",
                             "src/optim/base/names.h": '#include "optim/registry.h"\n'},
                            "src/optim/base/names.h:1: optim/base includes optim (src/optim/registry.h)")

    def test_a_header_without_a_unit_is_named(self):
        self.expect_problem({"include/adaact/optim/limits.h": ""},
                            "include/adaact/optim/limits.h: has no source")

    def test_folders_and_list_agree(self):
        self.expect_problem({"src/report/page.h": ""}, "src/report/: is not in the list")
        self.expect_problem({"docs/design.md": PAGE.replace("  train/", "  data/      data\n  train/")},
                            "docs/design.md:9: lists src/data/")

    def test_a_page_without_a_list_is_a_problem(self):
        self.expect_problem({"docs/design.md": "# Design\n"}, "there is no list")

    def test_the_picture_must_be_todays(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "includes.svg")
            self.assertEqual(check({}, "--draw", picture), (0, ""))
            self.assertEqual(check({}, "--drawn", picture), (0, ""))
            with open(picture, encoding="utf-8") as file:
                self.assertIn(">lamb</text>", file.read())
            status, output = check({"src/train/trainer.h": '#include "optim/lamb/lamb.h"\n'}, "--drawn", picture)
            self.assertEqual(status, 1)
            self.assertIn("is not the graph of today's includes", output)


if __name__ == "__main__":
    unittest.main()
