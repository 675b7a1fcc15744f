"""Trains LeNet-5 on Fashion-MNIST as a Python program does: PyTorch's DataLoader, its own SGD.

The other half of bench/epochs.py. Prints the seconds of each epoch as JSON.
"""
import argparse
import gzip
import json
import pathlib
import time

import torch
from torch import nn
from torch.nn import functional as F

MEAN, STD = 0.2860, 0.3530


def read_idx(path, header):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)[header:]


class FashionMnist(torch.utils.data.Dataset):
    """Zero-pads by 4, crops, flips and normalises one image at a time, from images kept in memory."""

    def __init__(self, folder):
        self.images = read_idx(folder / "train-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
        self.labels = read_idx(folder / "train-labels-idx1-ubyte.gz", 8).long()
        self.padded = F.pad(self.images, (4, 4, 4, 4))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        top, left, flip = torch.randint(9, (3,)).tolist()
        image = self.padded[i, :, top : top + 28, left : left + 28]
        if flip % 2:
            image = image.flip(2)
        return image.float().div_(255).sub_(MEAN).div_(STD), self.labels[i]


def lenet5():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(FashionMnist(arguments.data_dir), batch_size=128,
                                         shuffle=True, num_workers=arguments.workers)
    model = lenet5()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    seconds = []
    for _ in range(arguments.epochs):
        start = time.perf_counter()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"torch": torch.__version__, "seconds": seconds}))


if __name__ == "__main__":
    main()
