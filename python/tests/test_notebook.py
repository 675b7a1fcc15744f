"""The notebook, cell by cell, without Jupyter."""

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_notebook_trains_compares_and_draws(monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn = []
    monkeypatch.setattr(pyplot, "show", lambda: (drawn.append(len(pyplot.gcf().axes)), pyplot.close()))
    path = ROOT / "examples" / "compare_optimizers.ipynb"
    words = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []  # what a run gives is not kept
            exec(compile("".join(cell["source"]), path.name, "exec"), words)
    assert drawn == [1, 1]
    for name, (_, _, _, accuracy) in words["runs"].items():
        assert accuracy > 0.5, name  # of ten classes
    assert "0.weight  observed" in capsys.readouterr().out
