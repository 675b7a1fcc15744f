"""The blocks of Python in the documents, run one after the other as they stand there."""

import pathlib
import re

import adaact
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_examples_of_a_page_run(page):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    images, labels = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))
    words = {
        "torch": torch, "adaact": adaact, "images": images, "labels": labels, "loader": [(images, labels)] * 2,
        "model": torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5)),
    }
    for block in blocks:
        exec(compile(block, page, "exec"), words)
