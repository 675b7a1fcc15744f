#!/usr/bin/env python3
"""What a training step in Python costs with each optimizer: milliseconds, peak memory, bytes of state.

    python bench/python_optimizers.py                          ResNet-20, batch 128, on the CPU
    python bench/python_optimizers.py --model vit --batch 16
    python bench/python_optimizers.py --device cuda --compile

Optimizers take turns, so that whatever else the machine does meets all of them; numbers are medians of the rounds. Where
others use the processor too, the time of the CPU, of all threads, says more (with OMP_WAIT_POLICY=passive, so that waiting
is no work). Others are measured where their packages are installed: timm (LAMB, Adan), and the authors'
AdaAct from a folder of one's own, --authors FOLDER, which is put before the others to import `optim.adaact` from.
"""

import argparse
import gc
import importlib
import statistics
import sys
import time

import adaact
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.stride = stride
        self.added = channels - channels_in

    def forward(self, x):
        y = self.second_norm(self.second(torch.relu(self.first_norm(self.first(x)))))
        if self.stride > 1:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.added // 2, self.added - self.added // 2))
        return torch.relu(x + y)


def resnet20():
    blocks, channels_in = [], 16
    for channels in (16, 32, 64):
        for index in range(3):
            blocks.append(Block(channels_in, channels, 2 if index == 0 and channels > 16 else 1))
            channels_in = channels
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class VisionTransformer(nn.Module):
    def __init__(self, width=192, depth=6, heads=3, patch=4, size=32):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.blocks(self.patches(x).flatten(2).transpose(1, 2) + self.positions).mean(1))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10))


LR = 1e-3

MODELS = {"resnet20": resnet20, "vit": VisionTransformer, "mlp": mlp}


def contenders(arguments):
    """By name, makers of an optimizer."""
    optim = torch.optim
    # A small learning rate costs what any does, and nothing diverges.
    found = {
        "torch SGD fused": lambda m: optim.SGD(m.parameters(), LR, 0.9, weight_decay=5e-4, fused=True),
        "torch SGD foreach": lambda m: optim.SGD(m.parameters(), LR, 0.9, weight_decay=5e-4, foreach=True),
        "torch AdamW fused": lambda m: optim.AdamW(m.parameters(), LR, fused=True),
        "torch AdamW foreach": lambda m: optim.AdamW(m.parameters(), LR, foreach=True),
    }
    for name in ("AdaAct", "SGD", "AdamW", "Adan", "Lamb", "Foof", "Kfac"):
        found[name] = lambda m, made=getattr(adaact, name): made(m, lr=LR)
    for name, module, maker in (("timm LAMB", "timm.optim.lamb", "Lamb"), ("timm Adan", "timm.optim.adan", "Adan")):
        try:
            made = getattr(importlib.import_module(module), maker)
            found[name] = lambda m, made=made: made(m.parameters(), lr=LR)
        except ImportError:
            print(f"# {name}: not installed")
    if arguments.authors:
        sys.path.insert(0, arguments.authors)
        made = importlib.import_module("optim.adaact").AdaAct

        def make_authors(m):
            optimizer = made(m.parameters(), lr=LR)
            optimizer.model = m
            return optimizer

        found["authors' AdaAct"] = make_authors
    chosen = arguments.optimizers.split(",") if arguments.optimizers else list(found)
    return {name: found[name] for name in chosen}


def bytes_of_state(optimizer):
    return sum(value.numel() * value.element_size() for entries in optimizer.state.values()
               for value in entries.values() if isinstance(value, torch.Tensor))


class Contender:
    def __init__(self, make, arguments):
        torch.manual_seed(0)
        self.device = arguments.device
        self.model = MODELS[arguments.model]().to(arguments.device)
        if arguments.channels_last:
            self.model.to(memory_format=torch.channels_last)
        self.optimizer = make(self.model)
        self.called = torch.compile(self.model, mode=arguments.mode) if arguments.compile else self.model
        self.images = torch.randn(arguments.batch, 3, 32, 32, device=arguments.device)
        if arguments.channels_last:
            self.images = self.images.to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, 10, (arguments.batch,), device=arguments.device)
        self.autocast = arguments.bf16
        self.milliseconds = []
        self.of_cpu = []

    def step(self):
        self.optimizer.zero_grad()
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            loss = F.cross_entropy(self.called(self.images), self.labels)
        loss.backward()
        self.optimizer.step()

    def time(self, steps):
        start, start_of_cpu = self._now(), time.process_time()
        for _ in range(steps):
            self.step()
        self.milliseconds.append((self._now() - start) * 1000 / steps)
        self.of_cpu.append((time.process_time() - start_of_cpu) * 1000 / steps)

    def _now(self):
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def peak_of_a_step(make, arguments):
    """In bytes, with no other contender in memory; None where nobody counts them."""
    if arguments.device != "cuda":
        return None
    each = Contender(make, arguments)
    each.time(2)
    torch.cuda.reset_peak_memory_stats()
    each.step()
    peak = torch.cuda.max_memory_allocated()
    del each
    torch._dynamo.reset()  # graphs hold memory too
    gc.collect()
    return peak


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="resnet20")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=3, help="steps of a round")
    parser.add_argument("--optimizers", help="some of them, separated by commas")
    parser.add_argument("--compile", action="store_true", help="the model by torch.compile")
    parser.add_argument("--mode", default="default", help="of torch.compile")
    parser.add_argument("--bf16", action="store_true", help="autocast")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--authors", metavar="FOLDER", help="a checkout of the authors' code")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    makers = contenders(arguments)
    peaks = {name: peak_of_a_step(make, arguments) for name, make in makers.items()}
    all_of_them = {name: Contender(make, arguments) for name, make in makers.items()}
    for each in all_of_them.values():
        each.time(2)  # compiles, makes state
        each.milliseconds.clear()
        each.of_cpu.clear()
    for _ in range(arguments.rounds):
        for each in all_of_them.values():
            each.time(arguments.steps)
    first = next(iter(all_of_them.values()))
    base, base_of_cpu = statistics.median(first.milliseconds), statistics.median(first.of_cpu)
    print(f"# {arguments.model}, batch {arguments.batch}, {arguments.device}, {arguments.threads} threads, "
          f"torch {torch.__version__}{', compiled' if arguments.compile else ''}")
    print(f"{'optimizer':<22} {'ms/step':>9} {'ratio':>6} {'CPU ms':>9} {'ratio':>6} {'state KiB':>10} {'peak MiB':>9}")
    for name, each in all_of_them.items():
        peak = f"{'':>9}" if peaks[name] is None else f"{peaks[name] / 2**20:9.1f}"
        median, of_cpu = statistics.median(each.milliseconds), statistics.median(each.of_cpu)
        print(f"{name:<22} {median:9.2f} {median / base:6.3f} {of_cpu:9.2f} {of_cpu / base_of_cpu:6.3f} "
              f"{bytes_of_state(each.optimizer) / 1024:10.1f} {peak}")


main()
