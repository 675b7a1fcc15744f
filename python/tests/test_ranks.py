"""Two processes with half of each batch take the steps of one with the whole."""

import copy
import gc
import os
import pathlib
import re
import tempfile
import time
import warnings

import adaact
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from adaact import ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(64, 5), nn.Tanh(),
                         nn.Linear(5, 2)).double()


def train(model, optimizer, part, steps=4):
    generator = torch.Generator().manual_seed(5)
    for _ in range(steps):
        x = part(torch.randn(8, 3, 4, 4, generator=generator).double())

        def closure():
            optimizer.zero_grad()
            loss = model(x).sin().mean()
            loss.backward()
            return loss

        optimizer.step(closure)


def on_each_rank(rank, task, folder, arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    try:
        task(rank, pathlib.Path(folder), *arguments)
    finally:
        gc.collect()  # models and optimizers hold the group, whose threads must not outlive Python
        dist.destroy_process_group()


def wait_for(processes, seconds):
    """A rank that waits for another one that never comes is an error, and not a test that never ends."""
    deadline = time.monotonic() + seconds
    while not processes.join(timeout=max(0.0, deadline - time.monotonic())):
        if time.monotonic() < deadline:
            continue  # one rank has ended
        for each in processes.processes:
            each.kill()
            each.join()
        pytest.fail(f"the ranks have not ended within {seconds} s")


def run_two(task, *arguments, seconds=240):
    """What the task has saved on each rank."""
    with tempfile.TemporaryDirectory() as folder:
        processes = mp.start_processes(on_each_rank, (task, folder, arguments), nprocs=2, join=False,
                                       start_method="spawn")
        wait_for(processes, seconds)
        return [torch.load(os.path.join(folder, f"{rank}.pt")) for rank in range(2)]


CASES = {
    "AdaAct": ("AdaAct", {}, False),
    "AdaAct, full covariance": ("AdaAct", {"covariance": "full"}, False),
    "AdaAct, compiled": ("AdaAct", {}, True),
    "Adan": ("Adan", {}, False),
    "Foof": ("Foof", {"covariance_period": 1, "inverse_period": 2}, False),
    "Sam over AdaAct": ("Sam", {"base": "adaact"}, False),
}


def train_in_ddp(rank, folder):
    trained = {}
    for case, (name, options, compiled) in CASES.items():
        model = net()
        wrapped = DistributedDataParallel(model)
        if compiled:
            wrapped = torch.compile(wrapped, backend="aot_eager")
        optimizer = getattr(adaact, name)(wrapped, **options)
        train(wrapped, optimizer, lambda x: x.chunk(2)[rank])
        trained[case] = model.state_dict()
    torch.save(trained, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def trained_by_two():
    return run_two(train_in_ddp)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_are_one(case, trained_by_two):
    name, options, _ = CASES[case]
    alone = net()
    train(alone, getattr(adaact, name)(alone, **options), lambda x: x)
    first, second = (trained[case] for trained in trained_by_two)
    for key, value in alone.state_dict().items():
        assert torch.equal(first[key], second[key])
        torch.testing.assert_close(first[key], value, rtol=1e-11, atol=1e-11)


def train_with_groups_own_gradients(rank, folder):
    model = net()
    optimizer = adaact.AdaAct(model)
    optimizer.share_statistics()
    generator = torch.Generator().manual_seed(5)
    for _ in range(3):
        x = torch.randn(8, 3, 4, 4, generator=generator).double()
        part = x[:2] if rank == 0 else x[2:]  # as uneven as may be
        optimizer.zero_grad()
        (model(part).sin().sum() / 16).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    torch.save(model.state_dict(), folder / f"{rank}.pt")


def test_shares_may_be_uneven_where_gradients_are_added_up_by_hand():
    alone = net()
    train(alone, adaact.AdaAct(alone), lambda x: x, steps=3)
    for saved in run_two(train_with_groups_own_gradients):
        for key, value in alone.state_dict().items():
            torch.testing.assert_close(saved[key], value, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("backend_config, device_types", [
    ("cuda:nccl", ["cuda"]), ("cpu:gloo,cuda:nccl", ["cpu", "cuda"]), ("cpu:gloo", ["cpu"])])
def test_a_configuration_of_backends_tells_where_a_group_sends_from(backend_config, device_types):
    assert ranks._device_types(backend_config) == device_types


def test_what_a_group_cannot_send_from_its_place_is_copied_to_another():
    on_cpu, on_meta = torch.ones(2), torch.ones(2, device="meta")
    meta = torch.device("meta")
    assert ranks._where_they_can_be_sent([on_cpu, on_meta], ["cpu", "meta"], meta) == [on_cpu, on_meta]
    sent = ranks._where_they_can_be_sent([on_cpu, on_meta], ["meta"], meta)
    assert sent[0].device == meta and sent[1] is on_meta


def train_with_a_group_that_sends_copies_alone(rank, folder):
    """As one of NCCL, which takes nothing from the CPU. Here the copies are on the CPU again."""
    asked = []

    def copies(tensors, device_types, station):
        asked.append((device_types, station))
        return [tensor.clone() for tensor in tensors]

    ranks._where_they_can_be_sent = copies
    trained = {}
    for name, options in (("AdaAct", {}), ("Foof", {"covariance_period": 1, "inverse_period": 2})):
        model = net()
        wrapped = DistributedDataParallel(model)
        train(wrapped, getattr(adaact, name)(wrapped, **options), lambda x: x.chunk(2)[rank])
        trained[name] = model.state_dict()
    assert asked and all("cpu" in types and station == torch.device("cpu") for types, station in asked), asked
    torch.save(trained, folder / f"{rank}.pt")


def test_sums_of_copies_are_brought_back():
    for trained in run_two(train_with_a_group_that_sends_copies_alone):
        for name, options in (("AdaAct", {}), ("Foof", {"covariance_period": 1, "inverse_period": 2})):
            alone = net()
            train(alone, getattr(adaact, name)(alone, **options), lambda x: x)
            for key, value in alone.state_dict().items():
                torch.testing.assert_close(trained[name][key], value, rtol=1e-11, atol=1e-11)


def wait_for_nobody(rank, folder):
    if rank == 1:
        dist.barrier()  # rank 0 does not come
    torch.save(rank, folder / f"{rank}.pt")
    time.sleep(60)


def test_ranks_that_wait_for_each_other_are_ended():
    began = time.monotonic()
    with pytest.raises(pytest.fail.Exception, match="have not ended within 1 s"):
        run_two(wait_for_nobody, seconds=1)
    assert time.monotonic() - began < 30


def train_as_the_page_says(rank, folder):
    words = {"torch": torch, "adaact": adaact}
    exec(page_block("def train("), words)
    model = net()
    optimizer = words["train"](model, [tuple(part.chunk(2)[rank] for part in batch) for batch in batches_of_images()])
    torch.save((model.state_dict(), optimizer.steps), folder / f"{rank}.pt")


def page_block(words):
    """The block of Python of docs/python.md that has these words."""
    page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return next(block for block in blocks if words in block)


def batches_of_images():
    generator = torch.Generator().manual_seed(5)
    return [(torch.randn(8, 3, 4, 4, generator=generator).double(), torch.randint(0, 2, (8,), generator=generator))
            for _ in range(3)]


def test_two_processes_that_train_as_the_page_says_are_one():
    alone = net()
    optimizer = adaact.AdaAct(alone)
    for images, labels in batches_of_images():
        optimizer.zero_grad()
        nn.functional.cross_entropy(alone(images), labels).backward()
        optimizer.step()
    for trained, steps in run_two(train_as_the_page_says):
        assert steps == 3
        for key, value in alone.state_dict().items():
            torch.testing.assert_close(trained[key], value, rtol=1e-11, atol=1e-11)


def fail_on_the_second(rank, folder):
    model = net()
    wrapped = DistributedDataParallel(model)
    optimizer = adaact.AdaAct(wrapped)
    before = copy.deepcopy(model.state_dict())
    x = torch.randn(4, 3, 4, 4).double()
    wrapped(x * float("inf") if rank == 1 else x).sin().mean().backward()
    try:
        optimizer.step()
        outcome = "no error"
    except adaact.NonFiniteError as error:
        outcome = str(error)
    unchanged = all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    torch.save((outcome, unchanged), folder / f"{rank}.pt")


def test_what_is_not_finite_on_one_is_an_error_on_both():
    for outcome, unchanged in run_two(fail_on_the_second):
        assert "is not finite" in outcome and unchanged


def take_a_step_that_is_not_shared(rank, folder):
    model = net()
    wrapped = DistributedDataParallel(model)
    caught = {}
    for name, optimizer in (("AdaAct", adaact.AdaAct(model)), ("SGD", adaact.SGD(model)), ("Kfac", adaact.Kfac(model))):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            train(wrapped, optimizer, lambda x: x, steps=2)
        caught[name] = [str(each.message) for each in told]
    torch.save(caught, folder / f"{rank}.pt")


def test_statistics_of_one_process_are_warned_of_once():
    for caught in run_two(take_a_step_that_is_not_shared):
        assert len(caught["AdaAct"]) == 1 and "call share_statistics()" in caught["AdaAct"][0]
        assert caught["SGD"] == []
        assert len(caught["Kfac"]) == 1 and "without DistributedDataParallel" in caught["Kfac"][0]


def make_kfac(rank, folder):
    try:
        adaact.Kfac(DistributedDataParallel(net()))
        outcome = "no error"
    except ValueError as error:
        outcome = str(error)
    torch.save(outcome, folder / f"{rank}.pt")


def test_kfac_does_not_take_gradients_of_one_process_for_those_of_all():
    assert all("expected that of the mean over all" in outcome for outcome in run_two(make_kfac))


SHARDED = {
    "AdaAct": ("AdaAct", {}),
    "AdaAct, momentum for the unobserved": ("AdaAct", {"unobserved_rule": "momentum"}),
    "AdamW": ("AdamW", {}),
    "SGD": ("SGD", {}),
}


def fully_sharded(model, **options):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    for module in model:
        if len(list(module.parameters())) > 0:
            fully_shard(module, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def net_to_shard():
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.LayerNorm(80), nn.Linear(80, 5),
                         nn.Tanh(), nn.Linear(5, 1)).double()  # of the last one row, which one process has


def whole(model):
    return {name: parameter.full_tensor() for name, parameter in model.state_dict().items()}


def train_sharded(rank, folder):
    from torch.distributed.fsdp import CPUOffloadPolicy

    trained = {}
    for case, (name, options) in SHARDED.items():
        model = fully_sharded(net_to_shard())
        optimizer = getattr(adaact, name)(model, **options)
        train(model, optimizer, lambda x: x.chunk(2)[rank])
        resumed = fully_sharded(net_to_shard())
        resumed.load_state_dict(model.state_dict())
        other = getattr(adaact, name)(resumed)
        other.load_state_dict(optimizer.state_dict())
        for each, its in ((model, optimizer), (resumed, other)):
            train(each, its, lambda x: x.chunk(2)[rank], steps=2)
        trained[case] = whole(model), whole(resumed)
    model = fully_sharded(net_to_shard())
    optimizer = adaact.AdaAct(model, non_finite_policy="skip")
    before = whole(model)
    model(torch.full((2, 3, 4, 4), float("nan") if rank == 1 else 1.0).double()).mean().backward()
    optimizer.step()
    trained["unchanged"] = all(torch.equal(value, before[name]) for name, value in whole(model).items())
    trained["skipped"] = (optimizer.steps, optimizer.skipped_steps)
    try:
        adaact.Lamb(model)
    except TypeError as error:
        trained["error"] = str(error)
    offloaded = fully_sharded(net_to_shard(), offload_policy=CPUOffloadPolicy(pin_memory=False))
    optimizer = adaact.AdaAct(offloaded)
    for steps in (4, 2):
        train(offloaded, optimizer, lambda x: x.chunk(2)[rank], steps)
    trained["offloaded"] = whole(offloaded)
    mesh = offloaded[0].weight.device_mesh
    # As that of a forward pass on a GPU. The attribute's name differs between releases.
    setattr(mesh, "_device_type" if hasattr(mesh, "_device_type") else "device_type", "cuda")
    try:
        adaact.AdaAct(offloaded)
    except TypeError as error:
        trained["error of offloading"] = str(error)
    torch.save(trained, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def trained_sharded():
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError:
        pytest.skip("this torch has no torch.distributed.fsdp.fully_shard")
    return run_two(train_sharded)


@pytest.mark.parametrize("case", SHARDED)
def test_sharded_parameters_take_the_steps_of_whole_ones(case, trained_sharded):
    name, options = SHARDED[case]
    alone = net_to_shard()
    optimizer = getattr(adaact, name)(alone, **options)
    train(alone, optimizer, lambda x: x)
    train(alone, optimizer, lambda x: x, steps=2)
    for trained in trained_sharded:
        went_on, resumed = trained[case]
        for key, value in alone.state_dict().items():
            torch.testing.assert_close(went_on[key], value, rtol=1e-11, atol=1e-11)
            assert torch.equal(went_on[key], resumed[key])


def test_sharded_parameters_are_all_left_as_they_are_where_one_process_has_nan(trained_sharded):
    for trained in trained_sharded:
        assert trained["unchanged"] and trained["skipped"] == (0, 1)


def test_optimizers_that_need_whole_parameters_say_so(trained_sharded):
    for trained in trained_sharded:
        assert "Lamb: parameters are sharded, expected whole ones" in trained["error"]


def test_parameters_offloaded_to_the_cpu_are_taken_where_the_forward_pass_is_there_too(trained_sharded):
    for trained in trained_sharded:
        for key, value in trained["AdaAct"][0].items():
            assert torch.equal(trained["offloaded"][key], value)
        assert "a parameter is on cpu and its mesh on cuda" in trained["error of offloading"]
        assert "CPUOffloadPolicy" in trained["error of offloading"]


def fail_beside_shards(rank, folder):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = net_to_shard()
    fully_shard(model[0], mesh=init_device_mesh("cpu", (2,)))
    optimizer = adaact.AdaAct(model)
    before = {name: value.clone() for name, value in model.named_parameters()}
    model(torch.randn(2, 3, 4, 4).double()).mean().backward()
    if rank == 1:
        model[4].weight.grad.fill_(float("nan"))  # which is whole
    try:
        optimizer.step()
        outcome = "no error"
    except adaact.NonFiniteError as error:
        outcome = str(error)
    unchanged = all(torch.equal(_local(before[name]), _local(value)) for name, value in model.named_parameters())
    fully_shard(model[4], mesh=init_device_mesh("cpu", (1, 2), mesh_dim_names=("copies", "shards")))
    try:
        adaact.AdaAct(model)
        meshes = "no error"
    except TypeError as error:
        meshes = str(error)
    torch.save((outcome, unchanged, meshes), folder / f"{rank}.pt")


def _local(parameter):
    return parameter.to_local() if hasattr(parameter, "to_local") else parameter


def test_whole_parameters_beside_shards_reject_the_step_of_all_too(trained_sharded):
    for outcome, unchanged, meshes in run_two(fail_beside_shards):
        assert "is not finite" in outcome and unchanged
        assert "different meshes" in meshes
