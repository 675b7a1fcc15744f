#!/usr/bin/env python3
"""Steps of `adaact bench` against SGD in Python, compiled and replayed from CUDA graphs, on one GPU.

    bench/peers.py [--adaact build/release/app/adaact] [--models resnet20,vit_small] [--repeats 2]
                   [--eager] [--json peers.json]
    bench/peers.py --check      # on any machine: the models here are those of adaact

Needs PyTorch 2 with CUDA and nothing else. The two programs take turns, each in a process of its own, and
do the same: bfloat16 autocast, channels last, cross entropy, momentum 0.9, weight decay 5e-4, three batches
of random images in turn with a graph for each. The first run of a model waits for torch.compile, a minute or
more; later ones find its cache.

Times are medians of rounds that events on the GPU measure, with the fastest and the slowest of all rounds.
Memory is the peak of what PyTorch's allocator has handed out while the graphs are captured, as `adaact bench`
measures it: weights, state, the three batches and all tensors of a step, but not the workspaces that cuBLAS
keeps for good. What the allocator holds in reserve is not in it; the JSON has that of Python.
"""
import argparse
import dataclasses
import gc
import itertools
import json
import math
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import time
from typing import Callable

import torch
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN_MODELS = HERE.parent / "tests" / "models" / "data"

# As in `adaact bench`.
BATCHES = 3
WARM_UP_STEPS = 3
ROUNDS = 5
FEWEST_STEPS = 20  # of a round
SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}

TO_SGD_HERE_BAR = 1.03
MEMORY_BAR = 1.0
MEBIBYTE = 2**20


# The models. Names of their state are those of adaact's, so that --check can compare.


def plain_convolution(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride, projection):
        super().__init__()
        self.stride = stride
        self.new_channels = outputs - inputs
        self.conv1 = plain_convolution(inputs, outputs, 3, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = plain_convolution(outputs, outputs, 3)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = None
        if projection and (stride != 1 or inputs != outputs):
            self.shortcut = nn.Sequential(plain_convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu_()
        y = self.bn2(self.conv2(y))
        return y.add_(self.shortened(x)).relu_()

    def shortened(self, x):
        if self.shortcut is not None:
            return self.shortcut(x)
        if self.stride == 1 and self.new_channels == 0:
            return x
        before = self.new_channels // 2
        subsampled = x[:, :, :: self.stride, :: self.stride]
        return F.pad(subsampled, (0, 0, 0, 0, before, self.new_channels - before))


class ResNetCifar(nn.Module):
    def __init__(self, widths, blocks, classes, projection):
        super().__init__()
        self.conv1 = plain_convolution(3, widths[0], 3)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.stages = []
        features = widths[0]
        for i, (width, count) in enumerate(zip(widths, blocks)):
            stage = nn.Sequential()
            for block in range(count):
                stride = 2 if i > 0 and block == 0 else 1
                stage.append(BasicBlock(features, width, stride, projection))
                features = width
            self.add_module(f"layer{i + 1}", stage)
            self.stages.append(stage)
        self.linear = nn.Linear(features, classes)

    def forward(self, images):
        x = self.bn1(self.conv1(images)).relu_()
        for stage in self.stages:
            x = stage(x)
        return self.linear(x.mean((2, 3)))


def resnet20():
    model = ResNetCifar([16, 32, 64], [3, 3, 3], classes=10, projection=False)
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return model


def resnet34():
    return ResNetCifar([64, 128, 256, 512], [3, 4, 6, 3], classes=100, projection=True)


class DenseLayer(nn.Module):
    def __init__(self, inputs, growth):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = plain_convolution(inputs, 4 * growth, 1)
        self.bn2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = plain_convolution(4 * growth, growth, 3)

    def forward(self, x):
        y = self.conv1(self.bn1(x).relu_())
        y = self.conv2(self.bn2(y).relu_())
        return torch.cat((y, x), 1)


class Transition(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.bn = nn.BatchNorm2d(inputs)
        self.conv = plain_convolution(inputs, outputs, 1)

    def forward(self, x):
        return F.avg_pool2d(self.conv(self.bn(x).relu_()), 2)


class DenseNet(nn.Module):
    def __init__(self, growth, blocks, classes):
        super().__init__()
        features = 2 * growth
        self.conv1 = plain_convolution(3, features, 3)
        self.stages = []
        for i, layers in enumerate(blocks):
            block = nn.Sequential(*(DenseLayer(features + layer * growth, growth) for layer in range(layers)))
            features += layers * growth
            self.add_module(f"dense{i + 1}", block)
            self.stages.append(block)
            if i + 1 < len(blocks):
                transition = Transition(features, features // 2)
                features //= 2
                self.add_module(f"trans{i + 1}", transition)
                self.stages.append(transition)
        self.bn = nn.BatchNorm2d(features)
        self.linear = nn.Linear(features, classes)

    def forward(self, images):
        x = self.conv1(images)
        for stage in self.stages:
            x = stage(x)
        return self.linear(self.bn(x).relu_().mean((2, 3)))


def densenet121():
    return DenseNet(growth=32, blocks=[6, 12, 24, 16], classes=100)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1 = plain_convolution(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = plain_convolution(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = plain_convolution(width, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(plain_convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        nn.init.zeros_(self.bn3.weight)

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu_()
        y = self.bn2(self.conv2(y)).relu_()
        y = self.bn3(self.conv3(y))
        return y.add_(x if self.downsample is None else self.downsample(x)).relu_()


class ResNetImageNet(nn.Module):
    def __init__(self, blocks, classes):
        super().__init__()
        self.conv1 = plain_convolution(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.stages = []
        features = width = 64
        for i, count in enumerate(blocks):
            stage = nn.Sequential()
            for block in range(count):
                stride = 2 if i > 0 and block == 0 else 1
                stage.append(Bottleneck(features, width, stride))
                features = 4 * width
            self.add_module(f"layer{i + 1}", stage)
            self.stages.append(stage)
            width *= 2
        self.fc = nn.Linear(features, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images):
        x = self.bn1(self.conv1(images)).relu_()
        x = F.max_pool2d(x, kernel_size=3, stride=2, padding=1)
        for stage in self.stages:
            x = stage(x)
        return self.fc(x.mean((2, 3)))


def resnet50():
    return ResNetImageNet([3, 4, 6, 3], classes=1000)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        images, tokens, width = x.shape
        qkv = self.qkv(x).reshape(images, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.proj(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = FeedForward(width, 4 * width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbedding(nn.Module):
    def __init__(self, width, patch_size):
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch_size, patch_size)

    def forward(self, images):
        return self.proj(images).flatten(2).transpose(1, 2)


class VisionTransformer(nn.Module):
    def __init__(self, image_size, patch_size, width, depth, heads, classes):
        super().__init__()
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + (image_size // patch_size) ** 2, width))
        self.patch_embed = PatchEmbedding(width, patch_size)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)
        nn.init.normal_(self.pos_embed, std=0.02)
        nn.init.normal_(self.cls_token, std=1e-6)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, images):
        patches = self.patch_embed(images)
        class_token = self.cls_token.expand(len(images), -1, -1)
        x = self.blocks(torch.cat((class_token, patches), 1) + self.pos_embed)
        return self.head(self.norm(x[:, 0]))


def vit_small():
    return VisionTransformer(image_size=224, patch_size=16, width=384, depth=12, heads=6, classes=1000)


@dataclasses.dataclass(frozen=True)
class Workload:
    title: str
    make: Callable[[], nn.Module]
    parameters: int
    classes: int
    image_size: int
    batch_size: int
    bar: float  # AdaAct here to SGD compiled in Python

    def make_checked(self):
        model = self.make()
        count = sum(parameter.numel() for parameter in model.parameters())
        if count != self.parameters:
            raise AssertionError(f"{self.title} has {count} parameters, expected {self.parameters}")
        return model


WORKLOADS = {
    "resnet20": Workload("ResNet-20", resnet20, 269_722, 10, 32, 128, 0.92),
    "resnet34": Workload("ResNet-34", resnet34, 21_328_292, 100, 32, 128, 0.92),
    "densenet121": Workload("DenseNet-121", densenet121, 7_048_548, 100, 32, 128, 0.95),
    "resnet50": Workload("ResNet-50", resnet50, 25_557_032, 1000, 224, 256, 0.95),
    "vit_small": Workload("ViT-S", vit_small, 22_050_664, 1000, 224, 256, 0.95),
}


# --check


def golden_values(name, tensor):
    """The formula of tests/models/golden_models.h."""
    bits = 2166136261
    for byte in name.encode():
        bits = (bits ^ byte) * 16777619 % 2**32
    values = torch.arange(tensor.numel(), dtype=torch.float64).mul_(0.37).add_(bits % 1000 / 100).sin_()
    if tensor.dim() >= 2:
        values *= 1.2 * math.sqrt(2 / tensor[0].numel())
    else:
        values *= 0.1
        if name.endswith(("running_var", "weight")):
            values += 1
    return values.view(tensor.shape)


@torch.no_grad()
def check(name):
    """Compares a model with the description that adaact's own is tested against."""
    workload = WORKLOADS[name]
    golden = json.loads((GOLDEN_MODELS / f"{name}.json").read_text())
    model = workload.make_checked().double().eval()
    state = model.state_dict()
    if {key: list(tensor.shape) for key, tensor in state.items()} != golden["state"]:
        raise AssertionError(f"{workload.title} has other names or shapes than {name}.json")
    for key, tensor in state.items():
        if not key.endswith("num_batches_tracked"):
            tensor.copy_(golden_values(key, tensor))
    shape = golden["input_shape"]
    logits = model(torch.arange(math.prod(shape), dtype=torch.float64).mul_(0.011).sin_().view(shape))
    if list(logits.shape) != golden["logits_shape"]:
        raise AssertionError(f"{workload.title} gives logits of shape {list(logits.shape)}")
    expected = torch.tensor(golden["logits"], dtype=torch.float64)
    error = (logits[:, : expected.shape[1]] - expected).abs().max() / expected.abs().max()
    if not error < 1e-9:
        raise AssertionError(f"{workload.title} gives other logits: they differ by {error:.1e}")
    print(f"{workload.title}: {workload.parameters:,} parameters, state and logits as in {name}.json", flush=True)


def check_all(names):
    failed = False
    for name in names:
        try:
            check(name)
        except Exception as error:  # the other models are still to be checked
            print(f"{WORKLOADS[name].title}: {type(error).__name__}: {error}", flush=True)
            failed = True
    return 1 if failed else 0


# --one: Python's half


def take_cublas_workspaces():
    """One for each thread and stream, for good: of this thread and of the one for backward passes."""
    layer = nn.Linear(64, 64, device="cuda", dtype=torch.bfloat16)
    layer(torch.randn(64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)).sum().backward()
    torch.cuda.synchronize()


def make_batches(workload):
    size = (workload.batch_size, 3, workload.image_size, workload.image_size)
    return [(torch.randn(size, device="cuda").contiguous(memory_format=torch.channels_last),
             torch.randint(workload.classes, size[:1], device="cuda")) for _ in range(BATCHES)]


def make_step(model, mode):
    optimizer = torch.optim.SGD(model.parameters(), fused=True, **SGD)

    def loss_of(images, labels):
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(images)
        return F.cross_entropy(logits.float(), labels)

    if mode == "compiled":
        loss_of = torch.compile(loss_of)

    def step(images, labels):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(images, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def captured(step, batches, stream):
    """A graph for each batch, and where it leaves the loss. They share memory, as they follow each other."""
    graphs, losses = [], []
    pool = torch.cuda.graph_pool_handle()
    for batch in batches:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=stream):
            losses.append(step(*batch))
        graphs.append(graph)
    return graphs, losses


def timed_rounds(graphs, rounds, steps):
    turns = itertools.cycle(graphs)

    def replay(count):
        for graph in itertools.islice(turns, count):
            graph.replay()

    milliseconds = []
    replay(steps)  # the GPU's clock may be low after so long a wait for the compiler
    for _ in range(rounds):
        replay(WARM_UP_STEPS)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        replay(steps)
        end.record()
        end.synchronize()
        milliseconds.append(begin.elapsed_time(end) / steps)
    return milliseconds


def measure(name, mode, rounds, steps):
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    workload = WORKLOADS[name]
    stream = torch.cuda.Stream()  # of everything: graphs cannot be captured on the default one
    with torch.cuda.stream(stream):
        take_cublas_workspaces()
        in_use_before = torch.cuda.memory_allocated()
        model = workload.make_checked().to("cuda", memory_format=torch.channels_last)
        batches = make_batches(workload)
        step = make_step(model, mode)
        begin = time.perf_counter()
        for _ in range(WARM_UP_STEPS):
            for batch in batches:
                step(*batch)
        torch.cuda.synchronize()
        warm_up_seconds = time.perf_counter() - begin
        gc.collect()  # the compiler leaves cycles, which may hold tensors
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        graphs, losses = captured(step, batches, stream)
        peak_bytes = torch.cuda.max_memory_allocated() - in_use_before
        peak_reserved_bytes = torch.cuda.max_memory_reserved()
        milliseconds = timed_rounds(graphs, rounds, steps)
        losses = torch.stack(losses).tolist()
    if not all(map(math.isfinite, losses)):
        raise ArithmeticError(f"the losses are {losses}, expected finite ones")
    return {
        "ms_per_step": statistics.median(milliseconds),
        "lowest_ms": min(milliseconds),
        "highest_ms": max(milliseconds),
        "rounds_ms": milliseconds,
        "peak_bytes": peak_bytes,
        "peak_reserved_bytes": peak_reserved_bytes,
        "warm_up_seconds": warm_up_seconds,
        "losses": losses,
        "environment": {
            "gpu": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        },
    }


# The comparison


def run(command, limit):
    """What a program prints. At its time limit it is ended together with the compiler's processes."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)
    try:
        printed, complaints = process.communicate(timeout=limit)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise RuntimeError(f"not done after {limit:.0f} s") from None
        raise
    if process.returncode != 0:
        raise RuntimeError(f"exit status {process.returncode}\n{complaints.strip()[-2000:]}")
    return printed


def measure_here(name, arguments):
    """AdaAct and SGD by `adaact bench`, which alternates between their rounds."""
    printed = run([arguments.adaact, "bench", "--model", name, "--batch-size", str(WORKLOADS[name].batch_size),
                   "--optimizers", "adaact,sgd", "--device", "cuda", "--precision", "bf16",
                   "--memory-format", "channels-last", "--steps", str(ROUNDS * arguments.steps), "--json"],
                  arguments.limit)
    costs = {cost["optimizer"]: cost for cost in json.loads(printed)["optimizers"]}
    if not all(cost["graph"] for cost in costs.values()):
        raise RuntimeError("adaact bench did not replay its steps from CUDA graphs")
    return costs


def measure_in_python(name, mode, arguments):
    printed = run([sys.executable, __file__, "--one", name, "--mode", mode, "--rounds", str(arguments.rounds),
                   "--steps", str(arguments.steps)], arguments.limit)
    return {mode: json.loads(printed.splitlines()[-1])}


def first_line_of(command):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


class Measurements:
    """Runs of every model: "adaact" and "sgd" here, "compiled" and "eager" in Python."""

    def __init__(self, arguments):
        self.failures = []
        self.runs = {name: {} for name in arguments.models}
        self.environment = {
            "adaact": first_line_of([arguments.adaact, "--version"]),
            "commit": first_line_of(["git", "-C", str(HERE), "describe", "--always", "--dirty"]),
            "driver": first_line_of(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]),
            "python": platform.python_version(),
            "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        self.settings = {"rounds": {"adaact": ROUNDS, "python": arguments.rounds}, "steps_of_a_round": arguments.steps}

    def add(self, name, costs):
        for program, cost in costs.items():
            self.environment.update(cost.pop("environment", {}))
            self.runs[name].setdefault(program, []).append(cost)

    def fail(self, name, program, error):
        self.failures.append({"model": name, "program": program, "error": str(error)})

    def has_failed(self, name, program):
        return any((failure["model"], failure["program"]) == (name, program) for failure in self.failures)

    def median(self, name, program, quantity="ms_per_step"):
        """None where nothing was measured."""
        values = [run[quantity] for run in self.runs[name].get(program, [])]
        return statistics.median(values) if values else None

    def ratio(self, name, program, other, quantity="ms_per_step"):
        one, base = self.median(name, program, quantity), self.median(name, other, quantity)
        return None if one is None or base is None else one / base

    def ratios(self, name):
        """Each with its bar."""
        return {
            "adaact_to_compiled": (self.ratio(name, "adaact", "compiled"), WORKLOADS[name].bar),
            "adaact_to_sgd": (self.ratio(name, "adaact", "sgd"), TO_SGD_HERE_BAR),
            "memory_to_compiled": (self.ratio(name, "adaact", "compiled", "peak_bytes"), MEMORY_BAR),
        }

    def write(self, path):
        ratios = {name: {key: {"ratio": ratio, "bar": bar, "met": None if ratio is None else ratio <= bar}
                         for key, (ratio, bar) in self.ratios(name).items()} for name in self.runs}
        path.write_text(json.dumps({"environment": self.environment, "settings": self.settings, "ratios": ratios,
                                    "runs": self.runs, "failures": self.failures}, indent=1) + "\n")


def time_cell(measurements, name, program):
    runs = measurements.runs[name].get(program)
    if not runs:
        return "-"
    lowest, highest = min(run["lowest_ms"] for run in runs), max(run["highest_ms"] for run in runs)
    return f"{measurements.median(name, program):.3f} [{lowest:.3f}, {highest:.3f}]"


def memory_cell(measurements, name, program):
    peak = measurements.median(name, program, "peak_bytes")
    return "-" if peak is None else f"{peak / MEBIBYTE:.1f}"


def ratio_cell(measurements, name, key):
    ratio, bar = measurements.ratios(name)[key]
    if ratio is None:
        return "-"
    return f"{ratio:.3f} (≤ {bar:.2f}: {'met' if ratio <= bar else '**missed**'})"


def print_table(measurements):
    times = {"AdaAct here": "adaact", "SGD here": "sgd", "SGD in Python, compiled": "compiled",
             "SGD in Python, eager": "eager"}
    measured = {program for runs in measurements.runs.values() for program in runs}
    rows = {f"{title}, ms [lowest, highest]": [time_cell(measurements, name, program) for name in measurements.runs]
            for title, program in times.items() if program != "eager" or program in measured}

    def add_row(title, cell, key):
        rows[title] = [cell(measurements, name, key) for name in measurements.runs]

    add_row("AdaAct here / SGD compiled", ratio_cell, "adaact_to_compiled")
    add_row("AdaAct / SGD, both here", ratio_cell, "adaact_to_sgd")
    add_row("peak memory, AdaAct here, MiB", memory_cell, "adaact")
    add_row("peak memory, SGD compiled, MiB", memory_cell, "compiled")
    add_row("peak memory, here / compiled", ratio_cell, "memory_to_compiled")

    print("\n" + ", ".join(f"{key} {value}" for key, value in measurements.environment.items()) + "\n")
    print("| | " + " | ".join(WORKLOADS[name].title for name in measurements.runs) + " |")
    print("|---" * (1 + len(measurements.runs)) + "|")
    for title, cells in rows.items():
        print(f"| {title} | " + " | ".join(cells) + " |")
    for failure in measurements.failures:
        print(f"\nfailed: {WORKLOADS[failure['model']].title}, {failure['program']}: {failure['error']}")
    sys.stdout.flush()


def compare(arguments):
    programs = {
        "adaact bench": measure_here,
        "Python, compiled": lambda name, arguments: measure_in_python(name, "compiled", arguments),
    }
    if arguments.eager:
        programs["Python, eager"] = lambda name, arguments: measure_in_python(name, "eager", arguments)
    measurements = Measurements(arguments)
    begin = time.monotonic()
    # All models before the next repeat: a whole table is there early, and later repeats find compiled programs.
    for repeat, name, program in itertools.product(range(arguments.repeats), arguments.models, programs):
        label = f"{WORKLOADS[name].title}, {program}, repeat {repeat + 1} of {arguments.repeats}"
        if measurements.has_failed(name, program):  # another try would cost as much time
            continue
        if arguments.stop_after is not None and time.monotonic() - begin > arguments.stop_after:
            print(f"{label} and what follows are left out: {arguments.stop_after:.0f} s are over", flush=True)
            break
        print(f"{label} … ", end="", flush=True)
        started = time.monotonic()
        try:
            costs = programs[program](name, arguments)
            measurements.add(name, costs)
            print(", ".join(f"{key} {cost['ms_per_step']:.3f} ms" for key, cost in costs.items()), end="")
        except (OSError, RuntimeError, ValueError, LookupError) as error:
            measurements.fail(name, program, error)
            print(f"failed: {error}", end="")
        print(f" ({time.monotonic() - started:.0f} s)", flush=True)
        if arguments.json:
            measurements.write(arguments.json)
    print_table(measurements)
    return 1 if measurements.failures else 0


def model_names(text):
    names = text.split(",")
    for name in names:
        if name not in WORKLOADS:
            raise argparse.ArgumentTypeError(f"there is no model '{name}'; there are: {', '.join(WORKLOADS)}")
    return list(dict.fromkeys(names))


def steps_of_round(text):
    steps = int(text)
    if steps < FEWEST_STEPS:
        raise argparse.ArgumentTypeError(f"{steps} steps a round, expected ≥ {FEWEST_STEPS}, as adaact bench takes")
    return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adaact", type=pathlib.Path, default=HERE.parent / "build" / "release" / "app" / "adaact",
                        help="the tool; build/release/app/adaact unless told")
    parser.add_argument("--models", type=model_names, default=list(WORKLOADS), help="names with commas between them")
    parser.add_argument("--repeats", type=int, default=2, help="of all programs, in turn")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of Python; adaact bench takes {ROUNDS}")
    parser.add_argument("--steps", type=steps_of_round, default=FEWEST_STEPS, help="of a round")
    parser.add_argument("--eager", action="store_true", help="Python without torch.compile, too")
    parser.add_argument("--limit", type=float, default=400, help="seconds for each process")
    parser.add_argument("--stop-after", type=float, help="seconds, after which no process is started any more")
    parser.add_argument("--json", type=pathlib.Path, help="where to write all results, after each process")
    parser.add_argument("--check", action="store_true", help="only compare the models with those of adaact")
    parser.add_argument("--one", choices=WORKLOADS, metavar="MODEL", help="only measure this one, in this process")
    parser.add_argument("--mode", choices=("compiled", "eager"), default="compiled", help="of --one")
    arguments = parser.parse_args()
    if arguments.check:
        return check_all(arguments.models)
    if not torch.cuda.is_available():
        sys.exit("peers.py: there is no GPU that PyTorch can use; --check works without one")
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.mode, arguments.rounds, arguments.steps)))
        return 0
    arguments.adaact = arguments.adaact.resolve()
    if not arguments.adaact.is_file():
        sys.exit(f"peers.py: there is no {arguments.adaact}; --adaact names the tool")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("peers.py: ended"))  # and with it what it started
    return compare(arguments)


if __name__ == "__main__":
    sys.exit(main())
