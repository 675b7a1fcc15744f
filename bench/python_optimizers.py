#!/usr/bin/env python3
"""What a training step in Python costs with each optimizer: milliseconds, peak memory, bytes of state.

    python bench/python_optimizers.py                          ResNet-20, batch 128, on the CPU
    python bench/python_optimizers.py --model vit --batch 16
    python bench/python_optimizers.py --device cuda --compile

Each optimizer has a process of its own, so that none is slowed by what another has set up, and optimizers take turns, so
that whatever else the machine does meets all of them; numbers are medians of the rounds. Where others use the processor
too, the time of the CPU, of all threads, says more (with OMP_WAIT_POLICY=passive, so that waiting is no work). The peak
is what a step takes beyond what was there before the model: on a GPU by torch's allocator, on the CPU by the system's
count of resident memory. Others are measured where their packages are installed: timm (LAMB, Adan), kfac-pytorch (with
the periods of Kfac here), and the authors' AdaAct from a folder of one's own, --authors FOLDER, which is put before the
others to import `optim.adaact` from.
"""

import argparse
import importlib
import importlib.util
import multiprocessing
import re
import statistics
import sys
import time

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


# A small learning rate costs what any does, and nothing diverges.
OF_TORCH = {
    "torch SGD fused": lambda m: torch.optim.SGD(m.parameters(), LR, 0.9, weight_decay=5e-4, fused=True),
    "torch SGD foreach": lambda m: torch.optim.SGD(m.parameters(), LR, 0.9, weight_decay=5e-4, foreach=True),
    "torch AdamW fused": lambda m: torch.optim.AdamW(m.parameters(), LR, fused=True),
    "torch AdamW foreach": lambda m: torch.optim.AdamW(m.parameters(), LR, foreach=True),
}
OURS = ("AdaAct", "SGD", "AdamW", "Adan", "Lamb", "Foof", "Kfac")
OF_OTHERS = {"timm LAMB": "timm.optim.lamb", "timm Adan": "timm.optim.adan", "kfac-pytorch": "kfac.preconditioner"}


class Preconditioned(torch.optim.SGD):
    """SGD with the gradients that kfac-pytorch has changed."""

    def __init__(self, model):
        super().__init__(model.parameters(), LR, 0.9, weight_decay=5e-4)
        made = importlib.import_module("kfac.preconditioner").KFACPreconditioner
        self.preconditioner = made(model, factor_update_steps=5, inv_update_steps=50, lr=LR)

    def step(self, closure=None):
        self.preconditioner.step()
        return super().step(closure)


def authors_adaact(model, folder):
    sys.path.insert(0, folder)
    optimizer = importlib.import_module("optim.adaact").AdaAct(model.parameters(), lr=LR)
    optimizer.model = model
    return optimizer


def make_optimizer(name, model, arguments):
    if name in OF_TORCH:
        return OF_TORCH[name](model)
    if name.startswith("timm"):
        module = importlib.import_module(OF_OTHERS[name])
        return (module.Lamb if name == "timm LAMB" else module.Adan)(model.parameters(), lr=LR)
    if name == "kfac-pytorch":
        return Preconditioned(model)
    if name == "authors' AdaAct":
        return authors_adaact(model, arguments.authors)
    import adaact  # only here: it has no part in what others cost

    return getattr(adaact, name)(model, lr=LR)


def is_installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def names_of_contenders(arguments):
    names = [*OF_TORCH, *OURS]
    for name, module in OF_OTHERS.items():
        if is_installed(module):
            names.append(name)
        else:
            print(f"# {name}: not installed")
    if arguments.authors:
        names.append("authors' AdaAct")
    if not arguments.optimizers:
        return names
    chosen = arguments.optimizers.split(",")
    unknown = [name for name in chosen if name not in names]
    if unknown:
        sys.exit(f"--optimizers has {', '.join(unknown)}, expected some of {', '.join(names)}")
    return chosen


def bytes_of_state(optimizer):
    return sum(value.numel() * value.element_size() for entries in optimizer.state.values()
               for value in entries.values() if isinstance(value, torch.Tensor))


class Contender:
    def __init__(self, name, arguments):
        torch.manual_seed(0)
        self.device = arguments.device
        self.held_before = resident_bytes("VmRSS")
        self.model = MODELS[arguments.model]().to(arguments.device)
        if arguments.channels_last:
            self.model.to(memory_format=torch.channels_last)
        self.optimizer = make_optimizer(name, self.model, arguments)
        self.called = torch.compile(self.model, mode=arguments.mode) if arguments.compile else self.model
        self.images = torch.randn(arguments.batch, 3, 32, 32, device=arguments.device)
        if arguments.channels_last:
            self.images = self.images.to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, 10, (arguments.batch,), device=arguments.device)
        self.autocast = arguments.bf16

    def step(self):
        self.optimizer.zero_grad()
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            loss = F.cross_entropy(self.called(self.images), self.labels)
        loss.backward()
        self.optimizer.step()

    def time(self, steps):
        """Milliseconds of a step, by the clock and of the CPU."""
        start, start_of_cpu = self._now(), time.process_time()
        for _ in range(steps):
            self.step()
        return (self._now() - start) * 1000 / steps, (time.process_time() - start_of_cpu) * 1000 / steps

    def peak(self):
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            self.step()
            return torch.cuda.max_memory_allocated()
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak begins anew
        self.step()
        return resident_bytes("VmHWM") - self.held_before

    def state(self):
        return bytes_of_state(self.optimizer)

    def _now(self):
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def resident_bytes(name):
    with open("/proc/self/status") as file:
        return 1024 * int(re.search(rf"^{name}:\s*(\d+) kB$", file.read(), re.MULTILINE)[1])


def contend(name, arguments, commands):
    """What a contender's process does: it answers until it is told nothing more."""
    torch.set_num_threads(arguments.threads)
    make_optimizer(name, nn.Linear(1, 1), arguments)  # so that its modules do not count as the step's memory
    contender = Contender(name, arguments)
    for command, *values in iter(commands.recv, None):
        commands.send(getattr(contender, command)(*values))


class Distant:
    """A contender in its own process."""

    def __init__(self, name, arguments):
        self.commands, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=contend, args=(name, arguments, theirs), daemon=True)
        self.process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        self.milliseconds = []
        self.of_cpu = []

    def ask(self, *command):
        self.commands.send(command)
        return self.commands.recv()

    def end(self):
        self.commands.send(None)
        self.process.join()

    def take_turn(self, steps):
        wall, of_cpu = self.ask("time", steps)
        self.milliseconds.append(wall)
        self.of_cpu.append(of_cpu)


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
    all_of_them = {name: Distant(name, arguments) for name in names_of_contenders(arguments)}
    for each in all_of_them.values():
        each.ask("time", 2)  # compiles, makes state
    for _ in range(arguments.rounds):
        for each in all_of_them.values():
            each.take_turn(arguments.steps)
    first = next(iter(all_of_them.values()))
    base, base_of_cpu = statistics.median(first.milliseconds), statistics.median(first.of_cpu)
    base_peak = first.ask("peak")
    print(f"# {arguments.model}, batch {arguments.batch}, {arguments.device}, {arguments.threads} threads, "
          f"torch {torch.__version__}{', compiled' if arguments.compile else ''}")
    print(f"{'optimizer':<22} {'ms/step':>9} {'ratio':>6} {'CPU ms':>9} {'ratio':>6} {'state KiB':>10} {'peak MiB':>9} "
          f"{'ratio':>6}")
    for name, each in all_of_them.items():
        median, of_cpu = statistics.median(each.milliseconds), statistics.median(each.of_cpu)
        peak = base_peak if each is first else each.ask("peak")
        print(f"{name:<22} {median:9.2f} {median / base:6.3f} {of_cpu:9.2f} {of_cpu / base_of_cpu:6.3f} "
              f"{each.ask('state') / 1024:10.1f} {peak / 2**20:9.1f} {peak / base_peak:6.3f}")
    for each in all_of_them.values():
        each.end()


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
