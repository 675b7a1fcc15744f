"""Whether the torch at hand is the one that this package was built for."""

import importlib.util
import pathlib
import re

import torch


def _release(version):
    return re.match(r"\d+\.\d+", version).group()


def check():
    """LibTorch's C++ interface differs from release to release: another one would crash, or worse."""
    built_for = (pathlib.Path(__file__).parent / "_built_for_torch").read_text().strip()
    if _release(built_for) != _release(torch.__version__):
        raise ImportError(
            f"adaact was built for torch {_release(built_for)}, but torch {torch.__version__} is installed; "
            "install adaact again: pip install --force-reinstall --no-deps ."
        )
    if importlib.util.find_spec("adaact._core") is None:
        raise ImportError("adaact has no adaact._core for this Python; install it again: pip install .")
