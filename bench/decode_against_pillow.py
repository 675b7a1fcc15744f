#!/usr/bin/python3
"""Photographs that one core decodes, crops to 224x224 and mirrors: the loader's code against Pillow.

    bench/decode_against_pillow.py build/release photographs.tar [--images 500] [--quality 95] [--rounds 9]

Needs Debian's python3-pil. The tar file holds JPEG files of any size; so many of them, enlarged to 500x375, are what is
decoded. Both programs are given the same files and the same boxes, and take turns; both use one thread. Checks that
they make the same pixels. Prints a table and writes decode.json beside the build.
"""
import argparse
import io
import json
import math
import pathlib
import random
import statistics
import subprocess
import tarfile
import tempfile
import time
import zlib

from PIL import Image

SIDE = 224
SIZE = (500, 375)
BAR = 1.3


def make_photographs(archive, count, quality, folder):
    """Evenly spaced images of the archive, enlarged."""
    with tarfile.open(archive) as tar:
        members = sorted((member for member in tar.getmembers() if member.name.lower().endswith((".jpg", ".jpeg"))),
                         key=lambda member: member.name)
        paths = []
        for i in range(count):
            content = tar.extractfile(members[i * len(members) // count]).read()
            path = folder / f"{i:04}.jpg"
            image = Image.open(io.BytesIO(content)).convert("RGB")
            image.resize(SIZE, Image.Resampling.BICUBIC).save(path, quality=quality)
            paths.append(path)
    return paths


def draw_part(generator):
    """A random resized crop: top, left, height, width; whether bicubic; whether mirrored."""
    width, height = SIZE
    while True:
        area = generator.uniform(0.08, 1.0) * width * height
        ratio = math.exp(generator.uniform(math.log(3 / 4), math.log(4 / 3)))
        part = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if part[0] <= height and part[1] <= width:
            break
    top, left = generator.randint(0, height - part[0]), generator.randint(0, width - part[1])
    return top, left, *part, generator.randrange(2), generator.randrange(2)


def with_pillow(paths, parts):
    """Seconds, and a checksum of the planes of all images."""
    seconds, checksum = 0.0, 0
    for path, (top, left, height, width, bicubic, mirrored) in zip(paths, parts):
        begin = time.perf_counter()
        image = Image.open(path).crop((left, top, left + width, top + height))
        image = image.resize((SIDE, SIDE), Image.Resampling.BICUBIC if bicubic else Image.Resampling.BILINEAR)
        if mirrored:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        seconds += time.perf_counter() - begin
        for plane in image.split():
            checksum = zlib.crc32(plane.tobytes(), checksum)
    return seconds, checksum


def with_adaact(program, listed):
    seconds, checksum = subprocess.run([program, listed], check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), int(checksum)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("photographs", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--quality", type=int, default=95, help="of the JPEG files")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()

    rates = {"adaact": [], "Pillow": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        paths = make_photographs(arguments.photographs, arguments.images, arguments.quality, folder)
        generator = random.Random(1)
        parts = [draw_part(generator) for _ in paths]
        listed = folder / "list"
        listed.write_text("".join(" ".join(map(str, part)) + f" {path}\n" for part, path in zip(parts, paths)))
        size = statistics.mean(path.stat().st_size for path in paths)
        program = arguments.build / "bench" / "decode_photographs"
        programs = {"adaact": lambda: with_adaact(program, listed), "Pillow": lambda: with_pillow(paths, parts)}
        for measured in (False, *[True] * arguments.rounds):  # the first round warms up
            checksums = set()
            for name, run in programs.items():
                seconds, checksum = run()
                checksums.add(checksum)
                if measured:
                    rates[name].append(len(paths) / seconds)
            assert len(checksums) == 1, "adaact and Pillow make different pixels"

    print(f"{len(paths)} files of {SIZE[0]}x{SIZE[1]} and {size / 1000:.0f} kB; images per second of one core, equal pixels")
    for name, of_program in rates.items():
        print(f"{name:8} {statistics.median(of_program):7.1f} [{min(of_program):.1f}, {max(of_program):.1f}]")
    ratio = statistics.median(rates["adaact"]) / statistics.median(rates["Pillow"])
    print(f"{ratio:.2f} (bar {BAR})")
    result = arguments.build / "decode.json"
    result.write_text(json.dumps({"images_per_second": rates, "ratio": ratio}, indent=1) + "\n")
    print(result)


if __name__ == "__main__":
    main()
