"""Version and dependencies of the Python package, for scikit-build-core.

LibTorch's C++ interface differs from release to release. So a wheel is for the torch that it was built with: its
version says which (0.1.0+torch2.11), and it depends on that release alone.
"""

import pathlib
import re
import subprocess
import sys

__all__ = ["dynamic_metadata"]


def _release_of_torch():
    # -E: pip's isolation hides the packages that are installed, those of the user's site too, by Python's variables.
    asked = subprocess.run([sys.executable, "-E", "-c", "import torch; print(torch.__version__)"],
                           capture_output=True, text=True, check=False)
    found = re.search(r"^(\d+\.\d+)\.\S+$", asked.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(
            f"{sys.executable} has no torch that can be imported; install torch 2.4 to 2.11 first. Where packages are "
            "built in an environment of their own, as by uv, say --no-build-isolation.")
    return found.group(1)


def dynamic_metadata(field, settings=None):
    release = _release_of_torch()
    if field == "dependencies":
        return [f"torch=={release}.*"]
    project = (pathlib.Path(__file__).parents[1] / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(adaact VERSION (\S+)", project).group(1) + f"+torch{release}"
