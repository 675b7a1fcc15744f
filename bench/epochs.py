#!/usr/bin/env python3
"""Whole epochs: `adaact train` against Python on LeNet-5, AdaAct against SGD on ResNet-20.

    bench/epochs.py build/release [--rounds 7] [--python /usr/bin/python3]

The Python half needs PyTorch: on Debian 12, apt-get install python3-torch. Rounds of all programs are
interleaved; the first epoch of each warms up, the second counts. Evaluation is not part of either.
Prints a table and writes epochs.json beside the build.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FASHION_MNIST = "/usr/share/datasets/fashion-mnist"
THREADS = 2
PYTHON_WORKERS = (0, 1, 2)


def tool_epoch(tool, options):
    """Seconds of the second epoch, and the share of it spent waiting for data."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        subprocess.run([tool, "train", "--out", run, "--epochs", "2", "--limit-test", "128",
                        "--threads", str(THREADS)] + options, check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    first, second = [line["seconds"] for line in lines if line["kind"] == "epoch"]
    waited = sum(line["wait_seconds"] for line in lines
                 if line["kind"] == "step" and line["epoch"] == 1)
    return {"seconds": second - first, "waiting": waited / (second - first)}


def python_epoch(python, data_dir, workers):
    printed = subprocess.run(
        [python, HERE / "python_epoch.py", "--data-dir", data_dir, "--threads", str(THREADS),
         "--workers", str(workers)], check=True, capture_output=True, text=True).stdout
    return {"seconds": json.loads(printed)["seconds"][1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--data-dir", default=FASHION_MNIST)
    parser.add_argument("--images", type=int, default=6400, help="of ResNet-20's epoch")
    arguments = parser.parse_args()

    tool = arguments.build / "app" / "adaact"
    lenet5 = ["--model", "lenet5", "--dataset", "fashion-mnist", "--data-dir", arguments.data_dir]
    resnet20 = ["--model", "resnet20", "--dataset", "synthetic",
                "--limit-train", str(arguments.images)]
    lenet5_programs = {
        "LeNet-5, adaact train, AdaAct": lambda: tool_epoch(tool, lenet5),
        "LeNet-5, adaact train, SGD": lambda: tool_epoch(tool, lenet5 + ["--optimizer", "sgd"]),
    }
    for workers in PYTHON_WORKERS:
        lenet5_programs[f"LeNet-5, Python, SGD, {workers} workers"] = (
            lambda workers=workers: python_epoch(arguments.python, arguments.data_dir, workers))
    resnet20_programs = {
        "ResNet-20, adaact train, AdaAct": lambda: tool_epoch(tool, resnet20),
        "ResNet-20, adaact train, SGD": lambda: tool_epoch(tool, resnet20 + ["--optimizer", "sgd"]),
    }
    measured = {}
    for programs in (lenet5_programs, resnet20_programs):  # what is compared is measured side by side
        for number in range(arguments.rounds):
            for name, program in programs.items():
                measured.setdefault(name, []).append(program())
                print(f"round {number + 1} of {arguments.rounds}: {name}: "
                      f"{measured[name][-1]['seconds']:.2f} s", flush=True)

    median = {name: statistics.median(each["seconds"] for each in rounds)
              for name, rounds in measured.items()}
    print()
    for name, rounds in measured.items():
        seconds = [each["seconds"] for each in rounds]
        waiting = [each["waiting"] for each in rounds if "waiting" in each]
        print(f"{name:36} {median[name]:7.2f} s [{min(seconds):.2f}, {max(seconds):.2f}]"
              + (f"  waiting {100 * statistics.median(waiting):.2f} %" if waiting else ""))
    fastest = min((name for name in median if "Python" in name), key=median.get)
    ratios = {
        f"LeNet-5, AdaAct in the tool to {fastest} (bar 0.9)":
            median["LeNet-5, adaact train, AdaAct"] / median[fastest],
        "ResNet-20, AdaAct to SGD in the tool (bar 1.10)":
            median["ResNet-20, adaact train, AdaAct"] / median["ResNet-20, adaact train, SGD"],
    }
    print()
    for name, ratio in ratios.items():
        print(f"{ratio:.3f}  {name}")
    result = arguments.build / "epochs.json"
    result.write_text(json.dumps({"measured": measured, "ratios": ratios}, indent=1) + "\n")
    print(f"\n{result}")


if __name__ == "__main__":
    main()
