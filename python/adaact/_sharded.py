"""Parameters that FSDP2 (torch.distributed.fsdp.fully_shard) has divided over processes.

The core's parameters are this process's rows, in the memory that the sharded ones have. The forward pass multiplies by
another tensor, the gathered one, so that layers are observed by hooks alone; their sums are added up here, with a note
of whether a gradient of any process is not finite, because then none may take the step.
"""

import math

import torch

from adaact._groups import weights_taking_sums

# Those whose rule for a row needs nothing of the others but the second moments of the inputs.
SUPPORTED = ("adaact", "adam", "adamw", "sgd")

# Of their state, what has a number for each element of the parameter.
_ELEMENTWISE = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer")


def _dtensor():
    try:
        from torch.distributed.tensor import DTensor, Shard
    except ImportError:  # torch 2.4
        from torch.distributed._tensor import DTensor, Shard
    return DTensor, Shard


def is_sharded(parameter):
    """Whether it is one of FSDP2's. Does not load torch.distributed where nobody has."""
    return hasattr(parameter, "placements") and isinstance(parameter, _dtensor()[0])


class Shards:
    """The local rows of all sharded parameters of a model."""

    def __init__(self, owner, registered_name, parameters):
        sharded = [parameter for parameter in parameters if is_sharded(parameter)]
        if registered_name not in SUPPORTED:
            raise TypeError(f"{owner}: parameters are sharded, expected whole ones; "
                            f"those that take sharded ones are: {', '.join(SUPPORTED)}")
        _, shard = _dtensor()
        for parameter in sharded:
            if parameter.placements[-1] != shard(0):
                raise TypeError(f"{owner}: a parameter is placed as {parameter.placements}, expected rows, "
                                "as fully_shard() divides them")
            if parameter.device.type != parameter.device_mesh.device_type:
                raise TypeError(f"{owner}: a parameter is on {parameter.device.type} and its mesh on "
                                f"{parameter.device_mesh.device_type}, expected both on one kind of device; "
                                "CPUOffloadPolicy is not supported")
        self.mesh = sharded[0].device_mesh
        if any(parameter.device_mesh != self.mesh for parameter in sharded):
            raise TypeError(f"{owner}: parameters are divided over different meshes, expected one; give each mesh's "
                            "parameters an optimizer of their own")
        self._local = {parameter: _rows_of(parameter) for parameter in sharded}
        self._whole = [parameter for parameter in parameters if parameter not in self._local]

    def local(self, parameter):
        return self._local.get(parameter, parameter)

    def take_gradients(self):
        for parameter, rows in self._local.items():
            current = parameter._local_tensor
            if current.data_ptr() != rows.data_ptr() or current.device != rows.device:
                rows.data = current.detach()  # the model has been moved
            rows.requires_grad_(parameter.requires_grad)
            rows.grad = None if parameter.grad is None else parameter.grad.to_local()

    def drop_gradients(self):
        for rows in self._local.values():
            rows.grad = None

    def add_up(self, values):
        """The sum over all processes, of a vector."""
        import torch.distributed as dist

        for dim in range(self.mesh.ndim):
            dist.all_reduce(values, group=self.mesh.get_group(dim))
        return values

    def has_gradient_that_is_not_finite(self):
        gradients = [each.grad for each in (*self._local.values(), *self._whole)
                     if each.grad is not None and each.numel() > 0 and each.grad.layout == torch.strided]
        if not gradients:
            return False
        norms = torch._foreach_norm(gradients, math.inf)
        return not math.isfinite(sum(norm.to(norms[0].device) for norm in norms).item())

    def as_saved(self, parameter, entries):
        """Entries with a number for each element are sharded as the parameter is."""
        if parameter not in self._local:
            return entries
        made, _ = _dtensor()
        return {name: made.from_local(value, self.mesh, parameter.placements, run_check=False,
                                      shape=parameter.shape, stride=parameter.stride())
                if name in _ELEMENTWISE else value for name, value in entries.items()}


def sum_over_processes(sums, core, param_groups, shards):
    """Hands over what all processes have seen. Returns whether they may step: all or none."""
    failed = torch.tensor([float(shards.has_gradient_that_is_not_finite())], dtype=torch.float64)
    parts = [part.to(torch.float64).flatten() for each in sums for part in (each.count, each.squares)]
    device = parts[0].device if parts else torch.device(shards.mesh.device_type)
    message = shards.add_up(torch.cat([failed.to(device), *(part.to(device) for part in parts)]))
    summed = iter(message[1:].split([part.numel() for part in parts])) if parts else iter(())
    taken = weights_taking_sums(param_groups)
    for each, count, squares in zip(sums, summed, summed):
        rows = shards.local(each.weight)
        if count.item() > 0 and each.weight in taken and rows.numel() > 0:
            squares = squares.reshape(each.squares.shape).to(each.squares.dtype)
            core.add_sum(rows, squares, int(count.item()), *each.rows)
    return bool(torch.isfinite(message).all()) and message[0].item() == 0


def _rows_of(parameter):
    return parameter._local_tensor.detach().requires_grad_(parameter.requires_grad)
