"""Activation-based optimization for PyTorch, on the C++ core of the project.

    optimizer = adaact.AdaAct(model, lr=0.1, weight_decay=2e-3)  # was torch.optim.SGD(model.parameters(), ...)

Every optimizer here is a torch.optim.Optimizer. It is given the model and not its parameters, because it
observes what flows into the model's layers.
"""

import torch as _torch  # loads the libraries that _core is linked with

from adaact import _torch_version

_torch_version.check()

from adaact._core import NonFiniteError, RankError, version as __version__
from adaact.moments import second_moment
from adaact.optimizer import Optimizer
from adaact.optimizers import Adam, AdamW, AdaAct, Adan, Foof, Kfac, Lamb, Sam, SGD
from adaact.ranks import process_group_communicator
from adaact.run import Run, load_run

for _error in (NonFiniteError, RankError):
    _error.__module__ = __name__

__all__ = [
    "AdaAct",
    "Adam",
    "AdamW",
    "Adan",
    "Foof",
    "Kfac",
    "Lamb",
    "NonFiniteError",
    "Optimizer",
    "RankError",
    "Run",
    "SGD",
    "Sam",
    "load_run",
    "process_group_communicator",
    "second_moment",
]
