#!/usr/bin/env python3
"""Training on JPEG files, from the files to the weights, beside the same steps on data that lie on the GPU already.

    python3 bench/photographs_on_gpu.py --adaact build/release/app/adaact photographs.tar

Needs Pillow. The tar file holds JPEG files of any size; --images of them, enlarged to the 500x375 that are typical of
ImageNet, are written to --folder, unless they are there. Then the recipe of ImageNet is trained for some epochs, of which
the first, which captures graphs and fills the page cache, does not count; once for each way of making images that
--image-work has. `adaact bench` gives the speed of the same step on one resident batch. Prints a table with ratios.
"""
import argparse
import io
import json
import multiprocessing
import pathlib
import shutil
import statistics
import subprocess
import tarfile

SIZE = (500, 375)
CLASSES = 100
BAR = 0.95


def enlarge(task):
    from PIL import Image

    content, path = task
    image = Image.open(io.BytesIO(content)).convert("RGB")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.resize(SIZE, Image.Resampling.BICUBIC).save(path, quality=90)


def make_photographs(archive, count, folder):
    """So many files in a hundred classes, of which a hundredth is to evaluate on."""
    with tarfile.open(archive) as tar:
        contents = [tar.extractfile(member).read() for member in tar.getmembers()
                    if member.name.lower().endswith((".jpg", ".jpeg"))]
    tasks = [(contents[i % len(contents)],
              folder / ("val" if i % 101 == 0 else "train") / f"{i % CLASSES:03}" / f"{i:06}.jpg") for i in range(count)]
    with multiprocessing.Pool() as pool:
        pool.map(enlarge, tasks, chunksize=64)
    # Each class needs an image of either split.
    for name in range(CLASSES):
        source = next(iter((folder / "train" / f"{name:03}").iterdir()))
        target = folder / "val" / f"{name:03}" / "one.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy(source, target)


def speeds_of_training(arguments, work):
    """Images per second of each epoch but the first."""
    out = arguments.folder / f"run-{work}"
    shutil.rmtree(out, ignore_errors=True)
    command = [arguments.adaact, "train", "--out", out, "--quiet", "--data-dir", arguments.folder, "--model",
               arguments.model, "--image-size", str(arguments.side), "--epochs", str(arguments.epochs + 1),
               "--batch-size", str(arguments.batch), "--device", arguments.device, "--precision", arguments.precision,
               "--memory-format", arguments.memory_format, "--workers", str(arguments.workers), "--image-work", work,
               "--optimizer", arguments.optimizer, "--lr", "0.1", "--flip", "on", "--crop", "resized",
               "--rand-augment", "rand-m7-mstd0.5-inc1", "--mixup", "0.1", "--cutmix", "1"]
    subprocess.run([str(word) for word in command], check=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    epochs = [line for line in lines if line["kind"] == "epoch"]
    waited = sum(line["wait_seconds"] for line in lines if line["kind"] == "step" and line["epoch"] > 0)
    return [line["images_per_second"] for line in epochs[1:]], waited / (epochs[-1]["seconds"] - epochs[0]["seconds"])


def speed_of_resident_steps(arguments):
    command = [arguments.adaact, "bench", "--json", "--model", arguments.model, "--batch-size", str(arguments.batch),
               "--optimizers", arguments.optimizer, "--device", arguments.device, "--precision", arguments.precision,
               "--memory-format", arguments.memory_format, "--steps", "50"]
    printed = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
    return json.loads(printed)["optimizers"][0]["images_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=pathlib.Path)
    parser.add_argument("--adaact", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/photographs"))
    parser.add_argument("--images", type=int, default=20000)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--optimizer", default="adaact")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--memory-format", default="channels-last")
    parser.add_argument("--image-work", nargs="+", default=["cpu", "gpu", "nvjpeg"])
    arguments = parser.parse_args()

    if not (arguments.folder / "train").exists():
        make_photographs(arguments.archive, arguments.images, arguments.folder)
    resident = speed_of_resident_steps(arguments)
    print(f"{'steps on resident data':<28} {resident:9.0f} images/s")
    for work in arguments.image_work:
        speeds, waiting = speeds_of_training(arguments, work)
        median = statistics.median(speeds)
        print(f"{'--image-work ' + work:<28} {median:9.0f} images/s [{min(speeds):.0f}, {max(speeds):.0f}], "
              f"{median / resident:.3f} of it (bar with nvjpeg: {BAR}), {100 * waiting:.1f} % of the time waiting")


if __name__ == "__main__":
    main()
