"""On a GPU: the steps that the CPU takes, in graphs, in bfloat16 and with channels last."""

import copy

import adaact
import pytest
import torch
import torch.distributed as dist
from adaact import _core, ranks
from test_eager import gentle, small_net

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)
if not _core.with_cuda:
    pytest.skip("adaact was built without CUDA kernels", allow_module_level=True)

GPU = "cuda"


@pytest.fixture(autouse=True)
def _forget_graphs():
    torch._dynamo.reset()


def batches(steps=5):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(6, 3, 6, 6, generator=generator).double() for _ in range(steps)]


def train(model, optimizer, inputs, called=None):
    for x in inputs:
        optimizer.zero_grad()
        gentle((called or model)(x)).backward()
        optimizer.step()


def compare(make_call=lambda model: model, make=adaact.AdaAct, memory_format=torch.contiguous_format, tolerance=1e-10):
    """Trains a model on the CPU and its copy on the GPU, in float64."""
    on_cpu = small_net().double()
    on_gpu = copy.deepcopy(on_cpu).to(GPU, memory_format=memory_format)
    train(on_cpu, make(on_cpu), batches())
    optimizer = make(on_gpu)
    train(on_gpu, optimizer, [x.to(GPU, memory_format=memory_format) for x in batches()], make_call(on_gpu))
    for (name, mine), theirs in zip(on_gpu.named_parameters(), on_cpu.parameters()):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=tolerance, atol=tolerance, msg=lambda m: f"{name}: {m}")
    return optimizer


@pytest.mark.parametrize("name", ["AdaAct", "Adam", "AdamW", "Adan", "Lamb", "SGD", "Foof", "Kfac"])
def test_steps_are_those_of_the_cpu(name):
    # An inverse multiplies rounding by its condition.
    tolerance = 1e-7 if name in ("Foof", "Kfac") else 1e-10
    compare(make=lambda model: getattr(adaact, name)(model, lr=0.01), tolerance=tolerance)


def test_channels_last_is_the_same_step():
    compare(memory_format=torch.channels_last)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_captured_graph_adds_up_what_it_sees(memory_format):
    optimizer = compare(lambda model: torch.compile(model, fullgraph=True, mode="reduce-overhead"),
                        memory_format=memory_format)
    seen = {each["name"] for each in optimizer.coverage() if each["observed"]}
    assert {"0.weight", "4.weight", "6.weight"} <= seen


@pytest.mark.parametrize("is_compiled", [False, True])
def test_under_autocast_inputs_are_seen_as_the_layer_was_given_them(is_compiled):
    model = small_net().to(GPU)
    optimizer = adaact.AdaAct(model)
    x = batches(1)[0].float().to(GPU)
    expected = []
    with torch.no_grad(), torch.autocast(GPU, torch.bfloat16):
        activation = x
        for layer in copy.deepcopy(model):
            if isinstance(layer, torch.nn.Linear):
                expected.append(activation.float().square().mean(0))
            activation = layer(activation)
    with torch.autocast(GPU, torch.bfloat16):
        output = (torch.compile(model, fullgraph=True) if is_compiled else model)(x)
    gentle(output.float()).backward()
    optimizer.step()
    for layer, seen in zip((model[4], model[6]), expected):
        # An element of bfloat16 has eight bits.
        torch.testing.assert_close(optimizer.second_moment(layer.weight)[0], seen, rtol=2e-2, atol=1e-3)
        assert optimizer.state[layer.weight]["exp_avg"].dtype == torch.float32


def test_what_nccl_does_not_take_travels_by_way_of_the_gpu(monkeypatch, tmp_path):
    if not dist.is_nccl_available():
        pytest.skip("this torch has no NCCL")
    monkeypatch.setattr(ranks._core, "Communicator", lambda *arguments: arguments)
    dist.init_process_group("nccl", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        _, _, begin_sum, broadcast = ranks.process_group_communicator(device=torch.device(GPU, 0))
        counts, sums = torch.arange(3), torch.ones(2, device=GPU)
        begin_sum([counts, sums])()
        broadcast([counts, sums], 0)
        assert counts.tolist() == [0, 1, 2] and sums.tolist() == [1, 1]
    finally:
        dist.destroy_process_group()
