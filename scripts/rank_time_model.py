#!/usr/bin/env python3
"""The time of a step on N ranks: the model of docs/scaling.md, held against measurements and beyond them.

    scripts/rank_time_model.py measure build/release/app/adaact [--ranks 4] [--repeats 5] [--steps 20]
    scripts/rank_time_model.py predict

`measure` runs `adaact bench` on 1 to 4 ranks of this machine with a thread each, in turn, finds latency and bandwidth of
their sums and compares the steps that follow with those that were measured. `predict` prints the table for GPUs, whose
latencies and bandwidths are assumptions. Both print tables as they stand in docs/scaling.md.
"""
import argparse
import json
import math
import os
import statistics
import subprocess

BACKWARD = 2 / 3  # of a step: two products for each one of the forward pass


def step_ms(alone_ms, messages, message_ms, statistics_ms):
    """A message can leave when its part of the backward pass is done, and they move one after the other: either the
    pass is the longer and the last message is left, or the messages are and the first part of the pass comes before
    them. The statistics are added up after that."""
    backward = BACKWARD * alone_ms
    exchange = messages * message_ms
    together = max(backward + exchange / messages, backward / messages + exchange)
    return alone_ms - backward + together + statistics_ms


# --- measured here -------------------------------------------------------------------------------------------------


def measured_sum_ms(size, ranks, alpha_ms, ms_per_byte):
    """Ranks tell one another that they have come, then they add up."""
    return 2 * math.ceil(math.log2(ranks)) * alpha_ms + 2 * (ranks - 1) / ranks * size * ms_per_byte


def fit(sums):
    """Latency α and time per byte 1/β of sums: {(ranks, bytes): ms}. Least squares of the relative errors, so that small
    sums count as much as large ones."""
    rows = [(measured_sum_ms(size, ranks, 1.0, 0.0) / ms, measured_sum_ms(size, ranks, 0.0, 1.0) / ms)
            for (ranks, size), ms in sums.items()]
    a = sum(x * x for x, _ in rows)
    b = sum(x * y for x, y in rows)
    c = sum(y * y for _, y in rows)
    d, e = sum(x for x, _ in rows), sum(y for _, y in rows)
    determinant = a * c - b * b
    return (c * d - b * e) / determinant, (a * e - b * d) / determinant


def bench(tool, ranks, steps):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none")
    command = ["mpirun", "-n", str(ranks), tool, "bench", "--model", "resnet20", "--batch-size", "128", "--threads", "1",
               "--optimizers", "adaact", "--steps", str(steps), "--json"]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def medians_of_sums(results):
    """{(ranks, bytes): ms}"""
    taken = {}
    for ranks, found in results.items():
        for result in found:
            for each in result.get("ranks", {"sums": []})["sums"]:
                taken.setdefault((ranks, each["bytes"]), []).append(each["ms"])
    return {key: statistics.median(ms) for key, ms in taken.items()}


def predicted_step_ms(cost, ranks, cores, alpha_ms, ms_per_byte):
    exchange = cost["exchange"]

    def sum_ms(size):
        return measured_sum_ms(size, ranks, alpha_ms, ms_per_byte)

    # Ranks beyond the cores take turns.
    return step_ms(exchange["alone_ms_per_step"] * max(1.0, ranks / cores), exchange["messages"],
                   sum_ms(exchange["gradient_bytes"] / exchange["messages"]), sum_ms(exchange["statistics_bytes"]))


def measure(arguments):
    cores = len(os.sched_getaffinity(0))
    results = {ranks: [] for ranks in range(1, arguments.ranks + 1)}
    for _ in range(arguments.repeats):
        for ranks, found in results.items():
            found.append(bench(arguments.tool, ranks, arguments.steps))

    sums = medians_of_sums(results)
    # The messages of this model are smaller than a megabyte. Ranks beyond the cores wait for one more than for the network.
    alpha_ms, ms_per_byte = fit({(ranks, size): ms for (ranks, size), ms in sums.items()
                                 if ranks <= max(cores, 2) and size <= 1 << 20})
    print(f"{cores} cores, α = {1e3 * alpha_ms:.0f} µs, β = {1e-6 / ms_per_byte:.2f} GB/s\n")
    print("| ranks | bytes of a sum | measured, ms | predicted, ms |\n|---|---|---|---|")
    for (ranks, size), ms in sums.items():
        print(f"| {ranks} | {size:,} | {ms:.3f} | {measured_sum_ms(size, ranks, alpha_ms, ms_per_byte):.3f} |")

    print("\n| ranks | images a rank | measured, ms a step [lowest, highest] | predicted, ms | measured / predicted |")
    print("|---|---|---|---|---|")
    for ranks, found in results.items():
        costs = [result["optimizers"][0] for result in found]
        times = [cost["ms_per_step"] for cost in costs]
        measured = f"{statistics.median(times):.1f} [{min(times):.1f}, {max(times):.1f}]"
        if ranks == 1:
            print(f"| 1 | 128 | {measured} | | |")
            continue
        # Each run is held against what rank 0 took by itself in the same run: the machine's speed drifts.
        predicted = [predicted_step_ms(cost, ranks, cores, alpha_ms, ms_per_byte) for cost in costs]
        ratio = statistics.median(time / expected for time, expected in zip(times, predicted))
        print(f"| {ranks} | {found[0]['ranks']['images_of_first']} | {measured} | {statistics.median(predicted):.1f} | "
              f"{ratio:.3f} |")


# --- predicted for GPUs --------------------------------------------------------------------------------------------

# AdaAct's step on one H200 with bf16 (results/gpu-bench/peers.txt), and what `mpirun -n 2 adaact bench --json` says that
# travels.
# (model, images a GPU, ms a step, messages, bytes of gradients, bytes of statistics)
MODELS = [
    ("ResNet-20", 128, 1.198, 8, 1_079_384, 23_200),
    ("ResNet-34", 128, 3.412, 6, 85_314_096, 260_336),
    ("DenseNet-121", 128, 8.505, 8, 28_197_136, 406_704),
    ("ResNet-50", 256, 34.68, 7, 102_229_448, 220_672),
    ("ViT-S", 256, 24.64, 8, 88_203_904, 135_248),
]
GPUS = [8, 64, 512, 4096]
GPUS_OF_NODE = 8

# Assumed, not measured. Bandwidths are 80 % of what the links are sold as: NVLink 450 GB/s in each direction, InfiniBand
# 400 Gb/s a link. Latencies are of the size that NCCL's own choice of algorithms reckons with (its src/graph/tuning.cc).
LINK_EFFICIENCY = 0.8
NVLINK_BYTES_PER_MS = LINK_EFFICIENCY * 450e6
INFINIBAND_BYTES_PER_MS = LINK_EFFICIENCY * 50e6
MESSAGE_MS = 10e-3
NVLINK_HOP_MS = 3e-3
INFINIBAND_HOP_MS = 10e-3


def gpu_sum_ms(size, gpus, links_of_node):
    """The quicker of a ring over all GPUs and a tree of the nodes with a chain in each."""
    nodes = max(gpus // GPUS_OF_NODE, 1)
    bandwidth = NVLINK_BYTES_PER_MS
    if nodes > 1:
        bandwidth = min(bandwidth, links_of_node * INFINIBAND_BYTES_PER_MS)
    ring_latency = 2 * ((gpus - nodes) * NVLINK_HOP_MS + (nodes - 1) * INFINIBAND_HOP_MS)
    ring = ring_latency + 2 * (gpus - 1) / gpus * size / bandwidth
    tree_latency = 2 * ((GPUS_OF_NODE - 1) * NVLINK_HOP_MS + math.log2(nodes) * INFINIBAND_HOP_MS)
    tree = tree_latency + 2 * size / bandwidth
    return MESSAGE_MS + min(ring, tree)


def predict(_):
    for links in (8, 1):
        text = "a link for each GPU" if links == GPUS_OF_NODE else "one link for the 8 GPUs of a node"
        print(f"{text[0].upper() + text[1:]}:\n")
        print("| | " + " | ".join(f"{gpus:,} GPUs" for gpus in GPUS) + " |")
        print("|---|" + "---|" * len(GPUS))
        for model, images, alone, messages, gradients, sums in MODELS:
            cells = []
            for gpus in GPUS:
                taken = step_ms(alone, messages, gpu_sum_ms(gradients / messages, gpus, links),
                                gpu_sum_ms(sums, gpus, links))
                cells.append(f"{taken:.2f} ms, {100 * alone / taken:.0f} %")
            print(f"| {model}, {images} images a GPU, {alone} ms alone | " + " | ".join(cells) + " |")
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("tool")
    measuring.add_argument("--ranks", type=int, default=4)
    measuring.add_argument("--repeats", type=int, default=5)
    measuring.add_argument("--steps", type=int, default=20)
    measuring.set_defaults(run=measure)
    commands.add_parser("predict").set_defaults(run=predict)
    arguments = parser.parse_args()
    arguments.run(arguments)


main()
