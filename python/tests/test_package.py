"""The package around the optimizers: stubs, versions, runs of the laboratory."""

import ast
import inspect
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys

import adaact
import pytest
import torch
from adaact import _core, _stubs
from adaact._options import options_of


def test_stubs_are_those_of_the_registry():
    file = pathlib.Path(adaact.__file__).parent / "optimizers.pyi"
    assert file.read_text(encoding="utf-8") == _stubs.text(), "write them anew: python -m adaact._stubs"


def public_functions():
    for name in adaact.__all__:
        made = getattr(adaact, name)
        if not inspect.isclass(made):
            yield name, made
        for each, function in inspect.getmembers(made, inspect.isfunction) if inspect.isclass(made) else ():
            is_ours = function.__module__.startswith("adaact")
            if is_ours and (not each.startswith("_") or each == "__init__"):
                yield f"{name}.{each}", function


def test_whatever_is_public_says_its_types():
    seen = set()
    for name, function in public_functions():
        seen.add(name)
        signature = inspect.signature(inspect.unwrap(function), follow_wrapped=False)
        missing = [each for each, parameter in signature.parameters.items()
                   if parameter.annotation is inspect.Parameter.empty and each != "self"]
        assert not missing, f"{name}: {missing}"
        assert signature.return_annotation is not inspect.Signature.empty, name
    assert {"AdaAct.step", "AdaAct.coverage", "AdaAct.save", "load_run", "second_moment.__init__"} <= seen


def test_every_option_is_explained_where_one_name_means_two_things_too():
    for name in _core.optimizer_names():
        assert all(option.meaning for option in options_of(name).values()), name
    of_foof = options_of("foof")["scale"].meaning
    assert "covariances" in of_foof and of_foof in adaact.Foof.__doc__
    assert options_of("kfac")["scale"].meaning != of_foof
    assert options_of("sam", "foof")["scale"].meaning == of_foof


def test_info_tells_versions():
    told = subprocess.run([sys.executable, "-m", "adaact", "info"], capture_output=True, text=True, check=True).stdout
    assert f"torch            {torch.__version__}" in told
    assert "sgd" in told and adaact.__version__ in told


def test_another_torch_is_an_error(tmp_path):
    script = "import torch; torch.__version__ = '2.99.1'; import adaact"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "but torch 2.99.1 is installed" in told.stderr


ROOT = pathlib.Path(__file__).resolve().parents[2]


def questions():
    """What the build asks Python of torch: arguments of the interpreter."""
    metadata = (ROOT / "python" / "package_metadata.py").read_text(encoding="utf-8")
    yield ast.literal_eval(re.search(r"\[sys.executable, (.*?)\]", metadata)[1])
    cmake = (ROOT / "cmake" / "PythonTorch.cmake").read_text(encoding="utf-8")
    yield shlex.split(re.search(r'COMMAND "\$\{Python_EXECUTABLE\}" (.*?)\n  RESULT', cmake, re.DOTALL)[1])


@pytest.mark.parametrize("question", list(questions()), ids=["package_metadata.py", "PythonTorch.cmake"])
def test_the_build_finds_a_torch_of_the_users_site(question, tmp_path):
    python = sys._base_executable  # a virtual environment has no user's site
    home, hiding = tmp_path / "home", tmp_path / "hiding"
    environment = {**os.environ, "HOME": str(home)}
    for each in ("PYTHONPATH", "PYTHONUSERBASE", "PYTHONNOUSERSITE"):
        environment.pop(each, None)
    site = subprocess.run([python, "-m", "site", "--user-site"], env=environment, capture_output=True, text=True,
                          check=False).stdout.strip()
    pathlib.Path(site).mkdir(parents=True)
    hiding.mkdir()
    (pathlib.Path(site) / "torch.py").write_text(
        "from types import SimpleNamespace as Made\n__version__ = '2.98.1+user'\n"
        "_C, version = Made(_GLIBCXX_USE_CXX11_ABI=True), Made(cuda=None)\n")
    (hiding / "torch.py").write_text("raise ImportError('hidden by pip')\n")
    environment.update(PYTHONPATH=str(hiding), PYTHONNOUSERSITE="1")  # as pip's isolation has it
    told = subprocess.run([python, *question], env=environment, cwd=tmp_path, capture_output=True, text=True,
                          check=False)
    assert "2.98.1+user" in told.stdout, told.stderr


def test_there_is_one_openmp_in_the_process():
    # A second one would have threads of its own, which torch.set_num_threads() does not reach.
    maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    assert len({line.split()[-1] for line in maps if "libgomp" in line}) <= 1


def write_run(folder):
    records = [
        {"kind": "step", "step": 1, "loss": 2.5, "lr": 0.1},
        {"kind": "step", "step": 2, "loss": None, "lr": 0.1, "update_norm": 0.5},
        {"kind": "epoch", "epoch": 1, "test_top1": 0.25},
    ]
    (folder / "config.json").write_text(json.dumps({"model": "lenet5"}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records) + '{"kind": "st')
    _core.write_tensors(str(folder / "model.safetensors"), {"fc.weight": torch.ones(2, 3)}, {"model": "lenet5"})


def test_a_run_is_read_as_columns(tmp_path):
    write_run(tmp_path)
    run = adaact.load_run(tmp_path)
    assert run.config["model"] == "lenet5"
    assert run.steps["step"] == [1, 2] and run.steps["update_norm"] == [None, 0.5]
    assert run.steps["loss"][0] == 2.5 and math.isnan(run.steps["loss"][1])
    assert run.epochs == {"epoch": [1], "test_top1": [0.25]}
    assert torch.equal(run.weights["fc.weight"], torch.ones(2, 3))


def test_a_folder_without_a_run_and_a_damaged_record_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run"):
        adaact.load_run(tmp_path)
    write_run(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"kind": "step"}\n{"kind"\n')
    with pytest.raises(ValueError, match="metrics.jsonl, line 2"):
        adaact.load_run(tmp_path)
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "model.safetensors").unlink()
    assert adaact.load_run(tmp_path).weights is None
