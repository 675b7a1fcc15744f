"""Second moments of the inputs of a model's layers."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView

import torch

from adaact import _core, _model
from adaact._warn import warn


class second_moment:
    """E[x²] of what flows into the layers of a model, whatever trains it.

        with adaact.second_moment(model) as moments:
            model(images)
        moments["fc.weight"]  # (rows that read different inputs, features)

    Forward passes within count as one batch; gradients have to be recorded, and a layer in evaluation mode is not
    observed.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        layers = _model.layers_of(_model.unwrapped(model))
        _model.check("second_moment", layers)
        self._observed = _core.InputMoments([layer.as_tuple() for layer in layers])
        self._found = None

    def __enter__(self) -> second_moment:
        self._observed.start()
        return self

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        try:
            self._observed.stop()
        finally:
            by_name = {}
            for name, begin, end, mean, count in self._observed.take():
                by_name.setdefault(name, []).append((begin, mean, count))
            self._found = {name: _joined(parts) for name, parts in sorted(by_name.items())}
        if not self._found and kind is None:
            warn("second_moment: nothing was observed. Gradients have to be recorded and layers be in training mode, and "
                 "a graph that torch.compile has made shows no layers: call the model that it was made of.")

    def _known(self):
        if self._found is None:
            raise RuntimeError("second_moment: there are no moments before the with block has ended")
        return self._found

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._known():
            raise KeyError(f"no use of the weight '{name}' was observed; there are: {', '.join(self._known())}")
        return self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def keys(self) -> KeysView[str]:
        return self._known().keys()

    def items(self) -> ItemsView[str, torch.Tensor]:
        return self._known().items()

    def values(self) -> ValuesView[torch.Tensor]:
        return self._known().values()


def _joined(parts):
    """Parts of a packed projection that read different inputs, one below the other."""
    return torch.cat([mean for _, mean, _ in sorted(parts, key=lambda part: part[0])])
