"""Writes optimizers.pyi, by which editors and type checkers know the options: python -m adaact._stubs"""

import inspect
import pathlib

from adaact import optimizers
from adaact._options import signature_of


def text():
    lines = ["# Written by python -m adaact._stubs from the C++ registry.", "from collections.abc import Iterable",
             "from typing import Any", "", "import torch", "", "from adaact.optimizer import Optimizer", "",
             "_Model = torch.nn.Module | Iterable[tuple[str, torch.Tensor]]",
             "_Params = Iterable[torch.Tensor] | Iterable[dict[str, Any]] | None", ""]
    for name, made in vars(optimizers).items():
        if isinstance(made, type) and made.__module__ == optimizers.__name__:
            lines += [f"class {name}(Optimizer):", "    def __init__(", "        self,"]
            lines += [f"        {each}," for each in _parameters(signature_of(made.registered_name))]
            # What Sam's base takes is not known before its name is.
            lines += ["        **options: Any,"] if name == "Sam" else []
            lines += ["    ) -> None: ...", ""]
    return "\n".join(lines)


def _parameters(signature):
    yield "model: _Model"
    yield "params: _Params = None"
    yield "*"
    for each in signature.parameters.values():
        if each.kind == inspect.Parameter.KEYWORD_ONLY:
            default = "..." if "inf" in repr(each.default) else repr(each.default)
            yield f"{each.name}: {each.annotation} = {default}"


if __name__ == "__main__":
    (pathlib.Path(__file__).parent / "optimizers.pyi").write_text(text(), encoding="utf-8")
