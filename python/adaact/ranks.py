"""Sums over the processes that train one model together, by torch.distributed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from adaact import _core
from adaact._warn import warn


def process_group_communicator(group: Any = None, device: torch.device | None = None) -> _core.Communicator:
    """What share_statistics() adds up by: all-reduce and broadcast of a process group, the default one if None.

    The device is that of the model. Where the group cannot send from the CPU, as with NCCL, counts travel by way of it;
    None means the current one.
    """
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError("adaact: there is no process group; call torch.distributed.init_process_group() first")

    device_types = _device_types(dist.get_backend_config(group))
    station = device if device is not None and device.type in device_types else torch.device(device_types[0])

    # A thread of the group lets go of tensors a moment after they are summed, and would need Python to do so if nobody
    # else held them: at the end of the process that is too late.
    recent = []

    def begin_sum(tensors):
        sent = recent[:] = _where_they_can_be_sent(tensors, device_types, station)
        works = [dist.all_reduce(each, group=group, async_op=True) for each in sent]

        def wait():
            for work in works:
                work.wait()
            _bring_back(sent, tensors)

        return wait

    def broadcast(tensors, root):
        sent = recent[:] = _where_they_can_be_sent(tensors, device_types, station)
        for each in sent:
            dist.broadcast(each, root if group is None else dist.get_global_rank(group, root), group=group)
        _bring_back(sent, tensors)

    return _core.Communicator(dist.get_rank(group), dist.get_world_size(group), begin_sum, broadcast)


def _device_types(backend_config):
    """The kinds of device that a group's backends send from, by its configuration, such as "cpu:gloo,cuda:nccl"."""
    return [each.split(":")[0] for each in backend_config.split(",")]


def _where_they_can_be_sent(tensors, device_types, station):
    """The tensors, or copies on another device where the group cannot send from theirs."""
    return [tensor if tensor.device.type in device_types else tensor.to(station) for tensor in tensors]


def _bring_back(sent, tensors):
    for copy, tensor in zip(sent, tensors):
        if copy is not tensor:
            tensor.copy_(copy)


def communicator_for(model):
    """That of a model in DistributedDataParallel, compiled or not; None for any other."""
    model = getattr(model, "_orig_mod", model)
    if not isinstance(model, nn.parallel.DistributedDataParallel):
        return None
    return process_group_communicator(model.process_group, next(model.parameters()).device)


def warn_of_statistics_of_one_process(takes_wrapped_models):
    """Where several processes train, but nobody has said that they train one model."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        remedy = ("make the optimizer of the model in DistributedDataParallel, or call share_statistics()"
                  if takes_wrapped_models else
                  "add up the gradients yourself, without DistributedDataParallel, and call share_statistics()")
        warn("adaact: there are several processes, but this optimizer's statistics are those of one. Where all train one "
             f"model, {remedy}.")
