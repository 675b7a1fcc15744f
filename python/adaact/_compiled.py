"""What torch.compile keeps from the observer: hooks that act only while a model is traced.

Operators inside a compiled graph are not shown to an observer. So layers have forward pre-hooks that the compiler
traces: a few tensor operations add Σ x² of the layer's input to a buffer, as part of the graph, and step() hands what
has come together to the core. In eager code the hooks do nothing; there the observer sees the layers.

The parameters that FSDP2 divides over processes are not those that its forward pass multiplies by. There the hooks
act in eager code too.

The counts are tensors of shape (1,): an integer would be compiled anew in every call, and in-place changes of tensors
without dimensions get lost under the backend aot_eager.
"""

import math
import weakref

import torch
from torch import nn
from torch.nn import functional as F

from adaact._groups import weights_taking_sums
from adaact._sharded import is_sharded, sum_over_processes
from adaact._warn import warn


_has_traced = False


def _prepare_compiler():
    """Has graphs depend on the hooks of the modules that they are of.

    Otherwise the compiler would take a graph of another model of the same class, which has no hooks, for this one's.
    """
    from torch._dynamo import config, convert_frame, reset  # torch's own optimizers load it too

    torch.compiler.assume_constant_result(_Hook.is_taken_by_graph)
    looks_at_hooks = not config.skip_nnmodule_hook_guards and config.inline_inbuilt_nn_modules
    config.skip_nnmodule_hook_guards = False
    if not looks_at_hooks and convert_frame.FRAME_COUNTER > 0:
        reset()  # of graphs that were made before nobody knows which hooks they had; torch 2.4 never knows


def _tells_parameters_apart():
    """Whether a graph does: with torch 2.4 those of modules are no inputs of it."""
    from torch._dynamo import config

    return config.inline_inbuilt_nn_modules


class _Sum:
    """Σ x² of the inputs of some rows of a weight, by group and feature, and how many inputs that were."""

    def __init__(self, module, name, groups=1, rows=(0, -1)):
        self.name = name
        self.weight = module._parameters[name]
        self.is_sharded = is_sharded(self.weight)  # and the module has the gathered one
        self.knows_its_weight = not self.is_sharded and _tells_parameters_apart()
        self.groups = groups
        self.rows = rows
        self.paused = False
        self.make_buffers()

    def make_buffers(self):
        dtype = torch.float64 if self.weight.dtype == torch.float64 else torch.float32
        features = math.prod(self.weight.shape[1:])  # of one group
        self.squares = torch.zeros(self.groups, features, dtype=dtype, device=self.weight.device)
        self.count = torch.zeros(1, dtype=torch.int64, device=self.weight.device)
        self.note_version()
        if self.weight.is_cuda:
            from torch._dynamo import mark_static_address  # takes a second to load

            # So that CUDA graphs may write to them.
            mark_static_address(self.squares)
            mark_static_address(self.count)

    def takes(self, module, x):
        """Whether this input counts. Asked while the compiler traces, which guards the answer."""
        is_trained = any(each is not None and each.requires_grad for each in module._parameters.values())
        return (torch.is_grad_enabled() and module.training and not self.paused and is_trained
                and x.device == self.squares.device and self.is_of(module))

    def is_of(self, module):
        """Whether the module multiplies by this weight: torch.func.functional_call puts others in its place, and prune
        what it has made of it."""
        return not self.knows_its_weight or module._parameters.get(self.name) is self.weight

    def add(self, squares, count):
        self.squares.add_(squares.reshape(self.squares.shape))
        self.count.add_(count)

    def add_rows(self, x):
        """x is what a linear layer multiplies."""
        with torch.no_grad():
            rows = x.detach().to(self.squares.dtype).reshape(-1, x.shape[-1])
            self.add(rows.square().sum(0), rows.shape[0])

    def note_version(self):
        self._known_version = self.count._version

    def may_have_changed(self):
        """Told without a look at the device. A graph that was compiled elsewhere has not been traced here."""
        return _has_traced or self.count._version != self._known_version


class _CopyOfHook:
    """What a copy of a module has, which nobody's optimizer observes."""

    def __call__(self, module, args, kwargs):
        pass


class _Hook:
    """Of one module."""

    def __init__(self, module, sums):
        self.module = weakref.ref(module)
        self.sums = sums
        self.acts_in_eager_code = sums[0].is_sharded
        self.has_later_hooks = False  # as far as it was noted

    def acts(self):
        if torch.compiler.is_dynamo_compiling():  # is_compiling() is also true where torch.export runs the model
            return self.is_taken_by_graph()
        if self.acts_in_eager_code:
            self.note_later_hooks()
        return self.acts_in_eager_code

    def is_taken_by_graph(self):
        """The compiler calls it while it traces, and takes the result for a constant. An export takes no hooks."""
        global _has_traced
        if hasattr(torch.compiler, "is_exporting") and torch.compiler.is_exporting():  # torch 2.4 does not tell
            return False
        _has_traced = True
        self.note_later_hooks()
        return True

    def note_later_hooks(self):
        """Those of others may change the input after this one has seen it."""
        for hook in reversed(self.module()._forward_pre_hooks.values()):
            if hook is self:
                break
            self.has_later_hooks |= not isinstance(hook, (_Hook, _CopyOfHook))

    def __reduce__(self):
        return _CopyOfHook, ()


class _LinearHook(_Hook):
    def __call__(self, module, args, kwargs):
        if not self.acts():
            return
        x = args[0] if args else kwargs["input"]
        if self.sums[0].takes(module, x):
            self.sums[0].add_rows(x)


class _ConvolutionHook(_Hook):
    def __call__(self, module, args, kwargs):
        if not self.acts():
            return
        x = args[0] if args else kwargs["input"]
        if self.sums[0].takes(module, x):
            with torch.no_grad():
                self.sums[0].add(*_squares_of_patches(module, x.detach(), self.sums[0].squares.dtype))


class _AttentionHook(_Hook):
    """The projections of torch.nn.MultiheadAttention, which it does not call as modules."""

    def __call__(self, module, args, kwargs):
        if not self.acts():
            return
        inputs = list(args[:3]) + [kwargs[name] for name in ("query", "key", "value")[len(args):]]
        if not all(each.takes(module, inputs[0]) for each in self.sums):
            return
        if len(self.sums) == 4 and inputs[0] is inputs[1] and inputs[1] is inputs[2]:
            self.sums[3].add_rows(inputs[0])
            return
        for each, x in zip(self.sums, inputs):
            each.add_rows(x)


def _squares_of_patches(module, x, dtype):
    """The sum over samples first, and then what each offset of the kernel sees: (channels, kernel...), rows."""
    kernels = module.weight.shape[2:]
    dims = len(kernels)
    if x.dim() == dims + 1:
        x = x.unsqueeze(0)
    dilations = _of_each_dimension(module.dilation, dims)
    squares = x.to(dtype).square().sum(0, keepdim=True)
    squares = _padded(module, squares, [dilation * (kernel - 1) for kernel, dilation in zip(kernels, dilations)])
    count = x.shape[0]
    # A window is the kernel's span, whose length is known; a number of outputs would be another graph for each size.
    for kernel, stride, dilation in zip(kernels, _of_each_dimension(module.stride, dims), dilations):
        windows = squares.unfold(1, dilation * (kernel - 1) + 1, stride)
        count = count * windows.shape[1]
        squares = windows[..., ::dilation].sum(1)
    return squares, count


def _padded(module, x, reaches):
    """x without its first dimension, padded as the layer does it, by what its attributes are now.

    A reach is how far the kernel's last element is from its first."""
    if module.padding_mode != "zeros":
        return F.pad(x, module._reversed_padding_repeated_twice, mode=module.padding_mode).squeeze(0)
    if module.padding == "same":
        sides = [(reach // 2, reach - reach // 2) for reach in reaches]
    else:
        sizes = 0 if module.padding == "valid" else module.padding
        sides = [(size, size) for size in _of_each_dimension(sizes, len(reaches))]
    return F.pad(x, [size for both in reversed(sides) for size in both]).squeeze(0)


def _of_each_dimension(value, dims):
    """As torch reads a layer's attribute: one number stands for all dimensions."""
    if isinstance(value, int):
        return (value,) * dims
    return tuple(value) * dims if len(value) == 1 else tuple(value)


def _is_plainly(module, *classes):
    """A class derived from a layer's may do something else with its input."""
    return any(isinstance(module, each) and type(module).forward is each.forward
               and getattr(type(module), "_conv_forward", None) is getattr(each, "_conv_forward", None)
               for each in classes)


def _hook_of(module):
    parameters = {name for name, parameter in module._parameters.items() if parameter is not None}
    if _is_plainly(module, nn.Linear) and "weight" in parameters:
        return _LinearHook(module, [_Sum(module, "weight")])
    if _is_plainly(module, nn.Conv1d, nn.Conv2d, nn.Conv3d) and "weight" in parameters:
        if module.groups > 1 and is_sharded(module.weight):
            return None  # a process's rows need not be whole groups
        return _ConvolutionHook(module, [_Sum(module, "weight", module.groups)])
    if _is_plainly(module, nn.MultiheadAttention) and not is_sharded(module.out_proj.weight):
        width = module.embed_dim
        if "in_proj_weight" in parameters:
            parts = [(0, width), (width, 2 * width), (2 * width, 3 * width), (0, 3 * width)]
            return _AttentionHook(module, [_Sum(module, "in_proj_weight", rows=part) for part in parts])
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        if parameters.issuperset(names):
            return _AttentionHook(module, [_Sum(module, name) for name in names])
    return None


def _weights_of(module):
    return [parameter for name, parameter in module._parameters.items() if name.endswith("weight")]


class TracedSums:
    """The hooks of one optimizer."""

    def __init__(self, label, names, model):
        self._label = label
        self._names = names  # by parameter
        self._modules = [weakref.ref(module) for module in model.modules() if module._parameters]
        self._hooks, self._handles, self._sums = [], [], []
        self._told_of = set()  # hooks that are not the last of their layers
        self._are_removed = False
        self.has_received = False  # anything from a compiled graph

    def cover(self, param_groups):
        """Puts hooks on the layers of which the groups take sums, where there are none yet."""
        if self._are_removed:
            return
        taken = weights_taking_sums(param_groups)
        have_one = {hook.module() for hook in self._hooks}
        for module in (each() for each in self._modules):
            if module is not None and module not in have_one and not taken.isdisjoint(_weights_of(module)):
                self._put_hook_on(module)

    def _put_hook_on(self, module):
        hook = _hook_of(module)
        if hook is None:
            return
        if not self._hooks:
            _prepare_compiler()
        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
        self._hooks.append(hook)
        self._sums.extend(hook.sums)

    def remove(self):
        for handle in self._handles:
            handle.remove()
        self._hooks, self._handles, self._sums = [], [], []
        self._are_removed = True

    def pause(self, paused):
        for each in self._sums:
            each.paused = paused

    def clear(self):
        if not self._sums:
            return
        # On a GPU a list of one dtype is a single launch.
        torch._foreach_zero_([each.squares for each in self._sums])
        torch._foreach_zero_([each.count for each in self._sums])
        for each in self._sums:
            each.note_version()

    def hand_over(self, core, param_groups, shards=None):
        """Everything that has come together since the last time. Over shards, whether all processes may step."""
        if shards is not None:
            self.has_received = True  # here nothing else sees layers
            may_step = sum_over_processes(self._sums, core, param_groups, shards)
            self._start_anew()
            self._warn_of_later_hooks()
            return may_step
        if not any(each.may_have_changed() for each in self._sums):  # no reason to wait for a GPU
            return True
        counts = torch.cat([each.count.to(self._sums[0].count.device) for each in self._sums]).tolist()
        taken = weights_taking_sums(param_groups) if any(counts) else ()
        self.has_received |= any(counts)
        for each, count in zip(self._sums, counts):
            if count > 0 and each.weight in taken:
                core.add_sum(each.weight, each.squares.clone(), count, *each.rows)
        self._start_anew()
        self._warn_of_later_hooks()
        return True

    def _warn_of_later_hooks(self):
        late = [hook for hook in self._hooks if hook.has_later_hooks and hook not in self._told_of]
        self._told_of.update(late)
        if late:
            names = ", ".join(self._names[hook.sums[0].weight] for hook in late)
            warn(f"{self._label}: the layers of these weights have forward pre-hooks that were registered after the "
                 f"optimizer was made: {names}. What they make of an input is not seen where the optimizer's own hooks "
                 "look, in compiled graphs and for sharded parameters. Register them before.")

    def _start_anew(self):
        self.clear()
        for each in self._sums:
            if each.squares.device != each.weight.device:
                each.make_buffers()  # the model has been moved
