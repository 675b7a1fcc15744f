#!/usr/bin/env python3
"""Kills trainings and compares their ends with undisturbed ones; scripts/kill_campaign.sh starts it.

A run is killed and resumed until it finishes; then comes the next, with another seed and another
optimizer, until there were as many kills as asked for. Four kinds of kill take turns at random:

    SIGKILL at a random moment, while it starts or after some steps
    SIGKILL right after a temporary file of a checkpoint has appeared
    SIGTERM at such moments
    no room: a file system that is nearly full, or a limit on the size of files

With --ranks a run is trained by so many processes that mpirun starts, and one of them, or now and then mpirun itself,
is sent the signal. What an undisturbed run of as many ranks leaves is what must come out.

What must be equal in the end: model.safetensors to the byte; metrics.jsonl but for times; the length of the
event file; of the last checkpoint every tensor to the byte, and its description but for times.
"""

import argparse
import ctypes
import json
import os
import random
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter

OPTIMIZERS = ["adaact", "sgd", "adam", "adaact-full", "adamw", "adan", "lamb", "foof", "kfac", "sam"]
# 20 steps an epoch, the last with a smaller batch. Where ranks must start for every kill, fewer of them.
TRAINING = ["train", "--resume", "--dataset", "synthetic", "--model", "lenet5", "--limit-train", "156",
            "--limit-test", "40", "--batch-size", "8", "--threads", "1", "--checkpoint-every", "3", "--quiet"]
EPOCHS, EPOCHS_OF_RANKS = "6", "2"
MPIRUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "ranks", "mpirun.sh")
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
TIMES = ("seconds", "wait_seconds", "images_per_second")
TIMES_IN_CHECKPOINT = ("seconds", "epoch_seconds", "metrics_bytes")  # the latter because times are text
EVENTS = "events.out.tfevents.0.adaact"

START, EPOCH, WRITE = "while it started", "in an epoch", "inside the writing of a checkpoint"
KILL, AIMED, TERM, ROOM = ("SIGKILL at a random moment", "SIGKILL at a checkpoint", "SIGTERM", "no room")


def bytes_of(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def is_gone(process_id):
    """What has ended but was not waited for is gone as well."""
    return bytes_of(f"/proc/{process_id}/stat").rpartition(b")")[2].split()[:1] in ([], [b"Z"], [b"X"])


def ranks_started_by(process_id):
    """The processes of the ranks, by rank."""
    ranks = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = bytes_of(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(status) < 2 or int(status[1]) != process_id:
                continue
            environment = dict(entry.partition(b"=")[::2] for entry in bytes_of(f"/proc/{name}/environ").split(b"\0"))
        except OSError:  # it has just ended
            continue
        if b"OMPI_COMM_WORLD_RANK" in environment:
            ranks[int(environment[b"OMPI_COMM_WORLD_RANK"])] = int(name)
    return ranks


class Run:
    """A training in a folder."""

    def __init__(self, tool, folder, optimizer, seed, ranks, files_of_mpirun):
        name, _, kind = optimizer.partition("-")
        self.folder = folder
        self.ranks = ranks
        self.metrics = os.path.join(folder, "metrics.jsonl")
        self.command = [tool, *TRAINING, "--out", folder, "--seed", str(seed), "--optimizer", name,
                        "--epochs", EPOCHS if ranks == 1 else EPOCHS_OF_RANKS]
        self.environment = dict(os.environ)
        if ranks > 1:
            self.command = [MPIRUN, "mpirun", "-n", str(ranks), *self.command]
            # An mpirun that is killed leaves its files where they are.
            for place in ("orte_tmpdir_base", "btl_vader_backing_directory"):
                self.environment["OMPI_MCA_" + place] = files_of_mpirun
        if kind:
            self.command += ["--optimizer-options", json.dumps({"covariance": kind})]

    def start(self, most_bytes=None):
        def prepare():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # no training outlives its campaign
            if most_bytes is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

        return subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment,
                                preexec_fn=prepare)

    def send(self, process, number, victim):
        """Sends a signal to the process or, where there are ranks, to the victim: a rank, or mpirun after the last."""
        if self.ranks == 1:
            return process.send_signal(number)
        while process.poll() is None:
            ranks = ranks_started_by(process.pid)
            if len(ranks) < self.ranks and not ranks.get(victim):
                time.sleep(0.01)
                continue
            if victim == self.ranks:
                process.send_signal(number)
                while not all(map(is_gone, ranks.values())):  # without it they find out by themselves
                    time.sleep(0.01)
            elif victim in ranks:
                os.kill(ranks[victim], number)
            return

    def finish(self):
        """Trains to the end; what went wrong, or nothing."""
        process = self.start()
        printed = process.communicate()[0].decode(errors="replace")
        return "" if process.returncode == 0 else f"exit code {process.returncode}: {printed}"

    def unfinished(self):
        return [name for name in os.listdir(self.folder) if ".tmp" in name] if os.path.isdir(self.folder) else []

    def checkpoints(self):
        names = os.listdir(self.folder)
        steps = [int(name.split(".")[1]) for name in names
                 if name.startswith("checkpoint.") and name.endswith(".safetensors")]
        return sorted(steps)

    def size_of_checkpoint(self):
        """Of the last one; before there is one, less than any has."""
        steps = self.checkpoints() if os.path.isdir(self.folder) else []
        return os.path.getsize(self.path_of(steps[-1])) if steps else 200_000

    def path_of(self, step):
        return os.path.join(self.folder, f"checkpoint.{step}.safetensors")

    def repeatable(self):
        """Everything that must be equal, by name."""
        parts = {"model.safetensors": bytes_of(os.path.join(self.folder, "model.safetensors")),
                 "metrics.jsonl": [without(json.loads(line), TIMES)
                                   for line in bytes_of(self.metrics).splitlines()],
                 "size of the event file": os.path.getsize(os.path.join(self.folder, EVENTS))}
        last = self.checkpoints()[-1]
        parts["step of the last checkpoint"] = last
        for name, value in contents_of(bytes_of(self.path_of(last))).items():
            parts[f"last checkpoint, {name}"] = value
        return parts


def without(record, names):
    return {name: value for name, value in record.items() if name not in names}


def contents_of(checkpoint):
    """Tensors and description of a safetensors file, by name."""
    length, = struct.unpack_from("<Q", checkpoint)
    header = json.loads(checkpoint[8:8 + length])
    data = checkpoint[8 + length:]
    metadata = {name: value for name, value in header.pop("__metadata__").items() if "checksum" not in name}
    metadata["run"] = without(json.loads(metadata["run"]), TIMES_IN_CHECKPOINT)
    parts = dict(metadata)
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        parts["tensor " + name] = (tensor["dtype"], tensor["shape"], data[begin:end])
    return parts


def differences(run, reference):
    there, expected = run.repeatable(), reference.repeatable()
    return [name for name in sorted(there.keys() | expected.keys()) if there.get(name) != expected.get(name)]


class NewFiles:
    """Hears of files that are begun in a folder."""

    CREATE = 0x100

    def __init__(self, folder):
        self.descriptor = LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if LIBC.inotify_add_watch(self.descriptor, folder.encode(), self.CREATE) < 0:
            raise OSError(ctypes.get_errno(), f"cannot watch {folder}")

    def close(self):
        os.close(self.descriptor)

    def wait_for_checkpoint(self, process):
        """False where the process ends first."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        while True:
            ended = process.poll() is not None
            if not poll.poll(20):
                if ended:
                    return False
                continue
            events = os.read(self.descriptor, 4096)
            while events:
                length, = struct.unpack_from("I", events, 12)
                if events[16:16 + length].startswith(b"checkpoint."):
                    return True
                events = events[16 + length:]


class Campaign:
    def __init__(self, arguments):
        self.arguments = arguments
        self.random = random.Random(arguments.seed)
        self.kinds, self.places, self.kinds_of_room = Counter(), Counter(), Counter()
        self.victims = Counter()
        self.runs, self.starts, self.problems = 0, 0, []

    @property
    def kills(self):
        return sum(self.kinds.values())

    def carry_out(self):
        while self.kills < self.arguments.kills and not self.problems:
            self.kill_one_run(self.runs)
            self.runs += 1

    def kill_one_run(self, number):
        optimizer = OPTIMIZERS[number % len(OPTIMIZERS)]
        seed = self.arguments.seed * 100000 + number
        # Each optimizer in both places.
        small = self.arguments.small if (number + number // len(OPTIMIZERS)) % 2 == 1 else None
        ranks = self.arguments.ranks[number % len(self.arguments.ranks)]
        disk = self.arguments.disk
        run = Run(self.arguments.tool, os.path.join(small or disk, "run"), optimizer, seed, ranks, disk)
        reference = Run(self.arguments.tool, os.path.join(disk, "reference"), optimizer, seed, ranks, disk)
        before = self.kills
        problem = reference.finish()
        finished = False
        while not problem and not finished and self.kills < self.arguments.kills:
            finished, problem = self.kill_once(run, small)
        if not problem and not finished:
            self.starts += 1
            problem = run.finish()
        if not problem:
            unequal = differences(run, reference) + run.unfinished()
            problem = f"not equal: {', '.join(unequal)}" if unequal else ""
        where = "in a small file system" if small else "on the disk"
        by = f", {ranks} ranks" if ranks > 1 else ""
        count = self.kills - before
        print(f"run {number + 1}, {optimizer}{by}, {where}: {count} kills, {problem or 'equal'}", flush=True)
        if problem:
            self.problems.append(f"run {number + 1}: {problem}")
        shutil.rmtree(run.folder, ignore_errors=True)
        shutil.rmtree(reference.folder, ignore_errors=True)

    def kill_once(self, run, small):
        """Whether the run came to its end before it could be killed, and what went wrong."""
        # A limit on the size of files would be one of mpirun's own files too, which the ranks share as memory.
        kinds = [KILL, AIMED, TERM] + ([ROOM] if small or run.ranks == 1 else [])
        kind = self.random.choice(kinds)
        victim = 0  # without room it is always the first rank
        if run.ranks > 1 and kind != ROOM:
            victim = self.random.choice([*range(run.ranks), *range(run.ranks), run.ranks])
        before = bytes_of(run.metrics)
        self.starts += 1
        if kind == ROOM:
            code, printed = self.run_without_room(run, small)
        else:
            code, printed = self.run_and_signal(run, kind, victim, before)
        if code == 0:
            return True, ""
        if run.ranks > 1:
            # By itself mpirun ends with 1 when it is asked to.
            of_kill = [-signal.SIGKILL] if victim == run.ranks else [137]
            of_term = [1, 143] if victim == run.ranks else [143]
        else:
            of_kill, of_term = [-signal.SIGKILL], [-signal.SIGTERM, 143]
        expected = {KILL: of_kill, AIMED: of_kill, TERM: of_term, ROOM: [1]}
        complaint = "No space left on device" if small else "File too large"
        if code not in expected[kind] or (kind == ROOM and complaint not in printed):
            return False, f"{kind}: exit code {code}: {printed}"
        self.kinds[kind] += 1
        self.victims["mpirun" if victim == run.ranks else f"rank {victim}"] += 1
        self.places[self.place_of(run, kind, before, printed)] += 1
        if kind == ROOM:
            self.kinds_of_room[complaint] += 1
        return False, ""

    def run_and_signal(self, run, kind, victim, before):
        os.makedirs(run.folder, exist_ok=True)
        new_files = NewFiles(run.folder)
        process = run.start()
        if kind == AIMED or (kind == TERM and self.random.random() < 0.3):
            for _ in range(self.random.randint(1, 2)):
                if not new_files.wait_for_checkpoint(process):
                    break
            until = time.perf_counter() + self.random.uniform(0, 1e-3)
            while time.perf_counter() < until:
                pass
        elif self.random.random() < 0.15:  # while it starts
            time.sleep(self.random.uniform(0, 0.8 if run.ranks == 1 else 2.0))
        else:
            self.wait_for_steps(run, process, before, self.random.randint(1, 12))
        run.send(process, signal.SIGTERM if kind == TERM else signal.SIGKILL, victim)
        printed = process.communicate()[0].decode(errors="replace")
        new_files.close()
        return process.returncode, printed

    @staticmethod
    def wait_for_steps(run, process, before, lines):
        """Until so many lines were written by this process."""
        while process.poll() is None:
            now = bytes_of(run.metrics)
            if not before.startswith(now) and now.count(b"\n") - common_lines(before, now) >= lines:
                return
            time.sleep(0.001)

    def run_without_room(self, run, small):
        """A checkpoint does not fit, and what is written before it may not either."""
        room = self.random.randint(0, int(0.95 * run.size_of_checkpoint()))
        if small is None:
            return self.outcome(run.start(most_bytes=room))
        # What the run before left unfinished is removed at the start and makes room.
        room = max(0, room - sum(os.path.getsize(os.path.join(run.folder, name)) for name in run.unfinished()))
        filler = os.path.join(small, "filler")
        free = shutil.disk_usage(small).free
        with open(filler, "wb") as file:
            if free > room:
                os.posix_fallocate(file.fileno(), 0, free - room)
        try:
            return self.outcome(run.start())
        finally:
            os.remove(filler)

    @staticmethod
    def outcome(process):
        printed = process.communicate()[0].decode(errors="replace")
        return process.returncode, printed

    @staticmethod
    def place_of(run, kind, before, printed):
        if kind == ROOM:
            if "checkpoint." in printed:
                return WRITE
            return EPOCH if "metrics.jsonl" in printed or EVENTS in printed or "model." in printed else START
        if any(name.startswith("checkpoint.") for name in run.unfinished()):
            return WRITE
        return START if before.startswith(bytes_of(run.metrics)) else EPOCH

    def report(self):
        def table(title, counts):
            print(title)
            for name, count in counts:
                print(f"  {name:<38}{count:>6}")

        table("kills", [(kind, self.kinds[kind]) for kind in (KILL, AIMED, TERM)]
              + [(f"{ROOM}: {complaint}", count) for complaint, count in sorted(self.kinds_of_room.items())]
              + [("all", self.kills)])
        if max(self.arguments.ranks) > 1:
            table("whom they hit", sorted(self.victims.items()))
        table("where they hit", [(place, self.places[place]) for place in (START, EPOCH, WRITE)])
        table("runs", [("finished", self.runs), ("resumed or begun again", self.starts - self.runs),
                       ("equal to undisturbed ones", self.runs - len(self.problems))])
        for problem in self.problems:
            print(problem)


def common_lines(one, other):
    count = 0
    for left, right in zip(one.split(b"\n"), other.split(b"\n")):
        if left != right:
            break
        count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--disk", required=True, help="folder for runs")
    parser.add_argument("--small", help="folder in a file system of some 20 MB")
    parser.add_argument("--ranks", default=[1], type=lambda text: [int(number) for number in text.split(",")],
                        help="how many train a run; several numbers, as 2,3, take turns")
    campaign = Campaign(parser.parse_args())
    campaign.carry_out()
    campaign.report()
    return 1 if campaign.problems else 0


if __name__ == "__main__":
    sys.exit(main())
