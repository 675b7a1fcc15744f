"""python -m adaact info"""

import argparse
import platform

import torch

import adaact
from adaact import _core


def _info():
    rows = [
        ("adaact", adaact.__version__),
        ("built for torch", _core.built_for_torch),
        ("torch", torch.__version__),
        ("Python", platform.python_version()),
        ("CUDA kernels", "yes" if _core.with_cuda else "no: built without nvcc"),
        ("GPU", torch.cuda.get_device_name() if torch.cuda.is_available() else "none"),
        ("CPU threads", str(torch.get_num_threads())),
        ("optimizers", ", ".join(_core.optimizer_names())),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


def main():
    parser = argparse.ArgumentParser(prog="python -m adaact", description="About the adaact Python package.")
    parser.add_subparsers(dest="command", required=True).add_parser("info", help="versions and what was built")
    parser.parse_args()
    _info()


main()
