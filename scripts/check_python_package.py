#!/usr/bin/env python3
"""Takes a step with an installed adaact and reads its state back. The argument is the folder that it must lie in.

    python scripts/check_python_package.py FOLDER
"""

import pathlib
import sys
import tempfile

import torch

import adaact

place = pathlib.Path(adaact.__file__).resolve()
if pathlib.Path(sys.argv[1]).resolve() not in place.parents:
    sys.exit(f"check_python_package: {place} was imported, expected one in {sys.argv[1]}")

model = torch.nn.Linear(4, 2)
optimizer = adaact.AdaAct(model, lr=0.1)
x = torch.randn(3, 4)
model(x).square().mean().backward()
optimizer.step()
torch.testing.assert_close(optimizer.second_moment(model.weight)[0], x.square().mean(0))
with tempfile.TemporaryDirectory() as folder:
    optimizer.save(f"{folder}/state.safetensors")
    resumed = adaact.AdaAct(model)
    resumed.load(f"{folder}/state.safetensors")
assert resumed.steps == 1
for name in ("py.typed", "optimizers.pyi", "_built_for_torch"):
    assert (place.parent / name).is_file(), f"{name} was not installed"
print(f"check_python_package: adaact {adaact.__version__} works")
