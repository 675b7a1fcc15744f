"""What a training run of the laboratory has left in its folder."""

from __future__ import annotations

import json
import math
import os
import pathlib
from typing import Any

import torch

from adaact import _core


class Run:
    """A run's configuration, its metrics as columns and its weights.

    steps and epochs are dicts of lists, one entry for each step or epoch; None where a line lacks the quantity,
    nan where it was not finite.
    """

    def __init__(self, folder: pathlib.Path, config: dict[str, Any], steps: dict[str, list[Any]],
                 epochs: dict[str, list[Any]], weights: dict[str, torch.Tensor] | None, metadata: dict[str, str]) -> None:
        self.folder = folder
        self.config = config
        self.steps = steps
        self.epochs = epochs
        self.weights = weights
        self.metadata = metadata

    def __repr__(self) -> str:
        return f"<adaact.Run {self.folder}: {_length(self.epochs)} epochs, {_length(self.steps)} steps>"


def load_run(folder: str | os.PathLike[str]) -> Run:
    """Reads a run. One that is still going on has no weights yet: they are None."""
    folder = pathlib.Path(os.fspath(folder))
    config_path = folder / "config.json"
    if not config_path.is_file():
        raise FileNotFoundError(f"{folder} holds no run: there is no {config_path}")
    steps, epochs = [], []
    for record in _records(folder / "metrics.jsonl"):
        {"step": steps, "epoch": epochs}.get(record.get("kind"), []).append(record)
    weights, metadata = None, {}
    if (folder / "model.safetensors").is_file():
        weights, metadata = _core.read_tensors(str(folder / "model.safetensors"))
    return Run(folder, json.loads(config_path.read_text(encoding="utf-8")), _columns(steps), _columns(epochs),
               weights, metadata)


def _records(path):
    if not path.is_file():
        return
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return  # half written: the run is going on
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None


def _columns(records):
    names = dict.fromkeys(name for record in records for name in record if name != "kind")
    return {name: [_number(record[name]) if name in record else None for record in records] for name in names}


def _number(value):
    return math.nan if value is None else value


def _length(columns):
    return len(next(iter(columns.values()), []))
