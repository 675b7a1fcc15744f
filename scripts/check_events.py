#!/usr/bin/env python3
"""Reads a run's event file with TensorBoard's own reader and compares it with metrics.jsonl.

    scripts/check_events.py RUN      (needs `pip install tensorboard`)
"""
import json
import math
import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def expected_scalars(run):
    """What metrics.jsonl says, by tag and step."""
    scalars = {}
    for line in (run / "metrics.jsonl").open():
        entry = json.loads(line)
        kind, step = entry.pop("kind"), entry.pop("step")
        if kind not in ("step", "epoch"):
            continue
        entry.pop("epoch")
        for name, value in entry.pop("second_moments", {}).items():
            scalars.setdefault(f"second_moment/{name}", {})[step] = value
        prefix = "train" if kind == "step" else "epoch"
        for name, value in entry.items():
            scalars.setdefault(f"{prefix}/{name}", {})[step] = value
    return scalars


def main():
    run = pathlib.Path(sys.argv[1])
    reader = EventAccumulator(str(run), size_guidance={"scalars": 0})
    reader.Reload()
    expected = expected_scalars(run)
    found = set(reader.Tags()["scalars"])
    assert found == set(expected), f"tags differ: {sorted(found ^ set(expected))}"
    compared = 0
    for tag, by_step in expected.items():
        events = reader.Scalars(tag)
        assert [event.step for event in events] == list(by_step), f"{tag}: other steps"
        for event in events:
            value = by_step[event.step]
            assert math.isclose(event.value, value, rel_tol=1e-6), f"{tag}: {event.value}, {value}"
            compared += 1
    print(f"check_events: TensorBoard reads {compared} values under {len(expected)} tags, all equal")


if __name__ == "__main__":
    main()
