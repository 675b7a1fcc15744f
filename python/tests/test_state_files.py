"""State files by names of parameters, which C++ and Python read from each other to the bit."""

import os
import subprocess

import adaact
import pytest
import torch
from test_torch_optim import NAMES, make, net, same, train

PROGRAM = os.environ.get("ADAACT_STATE_IN_CPP")  # built from state_in_cpp.cpp


def in_cpp(task, name, path):
    if PROGRAM is None:
        pytest.skip("ADAACT_STATE_IN_CPP does not name the program built from state_in_cpp.cpp")
    subprocess.run([PROGRAM, task, name.lower(), path], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_cpp_reads_and_writes_what_python_has_written(name, tmp_path):
    model = net()
    optimizer = make(name, model, lr=0.02)
    train(model, optimizer)
    path = tmp_path / "state.safetensors"
    optimizer.save(path)
    written = path.read_bytes()
    in_cpp("pass", name, path)
    assert path.read_bytes() == written


@pytest.mark.parametrize("name", NAMES)
def test_python_reads_and_writes_what_cpp_has_written(name, tmp_path):
    path = tmp_path / "state.safetensors"
    in_cpp("take", name, path)
    written = path.read_bytes()
    optimizer = make(name, net(), lr=0.5)
    optimizer.load(path)
    assert optimizer.steps == 3
    assert optimizer.param_groups[0]["lr"] == make(name, net()).param_groups[0]["lr"]
    optimizer.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == written


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_optimizer_goes_on_to_the_bit(name, tmp_path):
    model = net()
    optimizer = make(name, model, lr=0.02)
    train(model, optimizer)
    optimizer.save(tmp_path / "state.safetensors")
    resumed = net()
    resumed.load_state_dict(model.state_dict())
    other = make(name, resumed)
    other.load(tmp_path / "state.safetensors")
    assert other.param_groups[0]["lr"] == 0.02
    train(model, optimizer, 2, seed=7)
    train(resumed, other, 2, seed=7)
    assert same(model, resumed)


def test_options_changed_in_groups_are_part_of_the_file(tmp_path):
    optimizer = adaact.AdaAct(net())
    optimizer.param_groups[0]["lr"] = 0.375
    optimizer.save(tmp_path / "state.safetensors")
    other = adaact.AdaAct(net())
    other.load(tmp_path / "state.safetensors")
    assert other.param_groups[0]["lr"] == 0.375


def test_names_are_the_models_own_whatever_it_is_wrapped_in(tmp_path):
    model = net()
    adaact.AdaAct(torch.compile(model)).save(tmp_path / "compiled.safetensors")
    adaact.AdaAct(torch.nn.DataParallel(model)).save(tmp_path / "parallel.safetensors")
    adaact.AdaAct(model).save(tmp_path / "plain.safetensors")
    written = (tmp_path / "plain.safetensors").read_bytes()
    assert (tmp_path / "compiled.safetensors").read_bytes() == written
    assert (tmp_path / "parallel.safetensors").read_bytes() == written


def test_names_are_the_models_own_whatever_its_parts_are_wrapped_in(tmp_path):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model, plain = net(), net()
    plain.load_state_dict(model.state_dict())
    model[0] = torch.compile(checkpoint_wrapper(model[0]), backend="aot_eager")
    model[2].compile(backend="aot_eager")
    optimizers = adaact.AdaAct(model), adaact.AdaAct(plain)
    assert [each["name"] for each in optimizers[0].coverage()] == [name for name, _ in plain.named_parameters()]
    optimizers[0].save(tmp_path / "wrapped.safetensors")
    optimizers[1].save(tmp_path / "plain.safetensors")
    assert (tmp_path / "wrapped.safetensors").read_bytes() == (tmp_path / "plain.safetensors").read_bytes()
    listed = adaact.AdaAct(list(torch.compile(model).named_parameters()))
    assert [each["name"] for each in listed.coverage()] == [name for name, _ in plain.named_parameters()]


def test_an_altered_byte_is_found_and_nothing_is_taken_over(tmp_path):
    model = net()
    optimizer = adaact.AdaAct(model)
    train(model, optimizer)
    path = tmp_path / "state.safetensors"
    optimizer.save(path)
    altered = bytearray(path.read_bytes())
    altered[-3] ^= 1
    path.write_bytes(altered)
    other = adaact.AdaAct(net())
    with pytest.raises(RuntimeError, match="checksum"):
        other.load(path)
    assert other.steps == 0


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RuntimeError, match="nothing.safetensors"):
        adaact.AdaAct(net()).load(tmp_path / "nothing.safetensors")
