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

import torch
from torch import nn
from torch.nn import functional as F

from adaact._groups import weights_taking_sums
from adaact._sharded import is_sharded, sum_over_processes


_has_traced = False

def _graph_takes_hooks():
    """The compiler calls it while it traces, and takes the result for a constant. An export takes no hooks."""
    global _has_traced
    if hasattr(torch.compiler, "is_exporting") and torch.compiler.is_exporting():  # torch 2.4 does not tell
        return False
    _has_traced = True
    return True


def _prepare_compiler():
    """Has graphs depend on the hooks of the modules that they are of.

    Otherwise the compiler would take a graph of another model of the same class, which has no hooks, for this one's.
    """
    from torch._dynamo import config, convert_frame, reset  # torch's own optimizers load it too

    torch.compiler.assume_constant_result(_graph_takes_hooks)
    looks_at_hooks = not config.skip_nnmodule_hook_guards and config.inline_inbuilt_nn_modules
    config.skip_nnmodule_hook_guards = False
    if not looks_at_hooks and convert_frame.FRAME_COUNTER > 0:
        reset()  # of graphs that were made before nobody knows which hooks they had; torch 2.4 never knows


class _Sum:
    """Σ x² of the inputs of some rows of a weight, by group and feature, and how many inputs that were."""

    def __init__(self, weight, groups=1, rows=(0, -1)):
        self.weight = weight
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
                and x.device == self.squares.device)

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

    def __init__(self, sums):
        self.sums = sums
        self.acts_in_eager_code = is_sharded(sums[0].weight)

    def acts(self):
        if torch.compiler.is_dynamo_compiling():  # is_compiling() is also true where torch.export runs the model
            return _graph_takes_hooks()
        return self.acts_in_eager_code

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
    dims = len(module.kernel_size)
    if x.dim() == dims + 1:
        x = x.unsqueeze(0)
    squares = x.to(dtype).square().sum(0, keepdim=True)
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    squares = F.pad(squares, module._reversed_padding_repeated_twice, mode=mode).squeeze(0)
    count = x.shape[0]
    for dim, kernel, stride, dilation in zip(range(1, dims + 1), module.kernel_size, module.stride, module.dilation):
        outputs = (squares.shape[dim] - dilation * (kernel - 1) - 1) // stride + 1
        windows = squares.unfold(dim, (outputs - 1) * stride + 1, dilation).narrow(dim, 0, kernel)
        squares = windows.unfold(-1, 1, stride).sum((-2, -1))
        count = count * outputs
    return squares, count


def _is_plainly(module, *classes):
    """A class derived from a layer's may do something else with its input."""
    return any(isinstance(module, each) and type(module).forward is each.forward
               and getattr(type(module), "_conv_forward", None) is getattr(each, "_conv_forward", None)
               for each in classes)


def _hook_of(module):
    parameters = {name for name, parameter in module._parameters.items() if parameter is not None}
    if _is_plainly(module, nn.Linear) and "weight" in parameters:
        return _LinearHook([_Sum(module.weight)])
    if _is_plainly(module, nn.Conv1d, nn.Conv2d, nn.Conv3d) and "weight" in parameters:
        if module.groups > 1 and is_sharded(module.weight):
            return None  # a process's rows need not be whole groups
        return _ConvolutionHook([_Sum(module.weight, module.groups)])
    if _is_plainly(module, nn.MultiheadAttention) and not is_sharded(module.out_proj.weight):
        width = module.embed_dim
        if "in_proj_weight" in parameters:
            parts = [(0, width), (width, 2 * width), (2 * width, 3 * width), (0, 3 * width)]
            return _AttentionHook([_Sum(module.in_proj_weight, rows=part) for part in parts])
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        if parameters.issuperset(names):
            return _AttentionHook([_Sum(getattr(module, name)) for name in names])
    return None


class TracedSums:
    """The hooks of one optimizer."""

    def __init__(self, model):
        self._handles = []
        self._sums = []
        self.has_received = False  # anything from a compiled graph
        _prepare_compiler()
        for module in model.modules():
            hook = _hook_of(module)
            if hook is not None:
                self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
                self._sums.extend(hook.sums)

    def remove(self):
        for handle in self._handles:
            handle.remove()
        self._handles, self._sums = [], []

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
        return True

    def _start_anew(self):
        self.clear()
        for each in self._sums:
            if each.squares.device != each.weight.device:
                each.make_buffers()  # the model has been moved
