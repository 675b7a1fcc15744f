"""Warnings of the core, told where the user's code is."""

import sys
import warnings


def warn(text):
    """Warns at the first caller that is neither of this package nor of torch, which wraps step() several times."""
    level, frame = 1, sys._getframe(0)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("adaact", "torch"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)
