"""What the core is told of a model: its layers, their kinds and their parameters."""

import sys
import weakref

import torch
from torch import nn

from adaact import _core
from adaact._sharded import is_sharded

_KINDS = (
    ("linear", (nn.Linear,)),
    ("convolution", (nn.Conv1d, nn.Conv2d, nn.Conv3d)),
    ("packed_projection", (nn.MultiheadAttention,)),
    ("transposed_convolution", (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)),
    ("recurrent", (nn.RNNBase, nn.RNNCellBase)),
    (
        "normalization",
        (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
        + ((nn.RMSNorm,) if hasattr(nn, "RMSNorm") else ()),
    ),
    ("embedding", (nn.Embedding, nn.EmbeddingBag)),
)


_KINDS_WITH_WEIGHTS = ("linear", "convolution", "packed_projection")

# Of a weight that is computed before each use, by weight_norm, spectral_norm and prune of torch.nn.utils.
_ENDINGS_OF_PARTS = ("weight_g", "weight_v", "weight_orig")
# Where torch.nn.utils.parametrize keeps what it computes one of: 0.parametrizations.weight.original
_PARAMETRIZATIONS = ".parametrizations."

# Modules that stand between a layer and its owner, with these names for the layer.
_WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module")


def own_name(name):
    """A name of the model's own, without the wrappers that parts of it are compiled or checkpointed by."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def _kind_of(module):
    return next((kind for kind, classes in _KINDS if isinstance(module, classes)), "other")


def unwrapped(model):
    """The model itself, without what torch.compile and data-parallel training wrap it in."""
    while True:
        if is_compiled(model):
            model = model._orig_mod
        elif isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            model = model.module
        else:
            return model


def is_compiled(model):
    """Whether torch.compile has made it."""
    if "torch._dynamo" not in sys.modules:  # which takes a second to load
        return False
    return isinstance(model, torch._dynamo.OptimizedModule)


class Layer:
    """A module that owns parameters."""

    def __init__(self, name, kind, parameters, module=None, makes_weight=False):
        self.name = name
        self.kind = kind
        self.parameters = parameters  # [(local name, tensor)]
        self.makes_weight = makes_weight  # of another layer, out of its own parameters
        self.module = None if module is None else weakref.ref(module)

    def as_tuple(self, local=lambda parameter: parameter):
        parameters = [(name, local(parameter)) for name, parameter in self.parameters]
        return self.name, self.kind, parameters, self.module

    def has_weight(self, local_name):
        """Whether it is what an observed layer multiplies by."""
        return self.kind in _KINDS_WITH_WEIGHTS and local_name.endswith("weight")

    def has_part_of_weight(self, local_name):
        """Whether an observed layer multiplies by something that is computed of it, and is no parameter."""
        if self.kind == "other":
            return self.makes_weight
        return self.kind in _KINDS_WITH_WEIGHTS and local_name.endswith(_ENDINGS_OF_PARTS)

    # A copy is of the parameters and not of the modules: these need not be picklable.
    def __getstate__(self):
        return {**self.__dict__, "module": None}


def layers_of(model):
    """The layers of a module, or of named parameters, told apart by their names."""
    if isinstance(model, nn.Module):
        layers = []
        modules = dict(model.named_modules())
        for name, module in modules.items():
            parameters = [(local, p) for local, p in module._parameters.items() if p is not None]
            if parameters:
                makes_weight = _makes_weight(name, modules)
                layers.append(Layer(own_name(name), _kind_of(module), parameters, module, makes_weight))
        return layers
    named = _named_parameters(model)
    by_layer = {}
    for name, parameter in named:
        layer, _, local = own_name(name).rpartition(".")
        by_layer.setdefault(layer, []).append((local, parameter))
    return [Layer(name, "other", parameters) for name, parameters in by_layer.items()]


def _makes_weight(name, modules):
    """Whether torch.nn.utils.parametrize computes an observed layer's weight by the module of this name."""
    owner, _, computed = f".{name}".rpartition(_PARAMETRIZATIONS)
    return computed.partition(".")[0].endswith("weight") and _kind_of(modules[owner[1:]]) in _KINDS_WITH_WEIGHTS


def _named_parameters(model):
    problem = (
        f"model is {type(model).__name__}, expected a torch.nn.Module or its named parameters, "
        "such as model.named_parameters(); these optimizers observe the layers that parameters belong to"
    )
    if isinstance(model, torch.Tensor) or not hasattr(model, "__iter__"):
        raise TypeError(problem)
    named = list(model)
    for each in named:
        if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str)
                and isinstance(each[1], torch.Tensor)):
            raise TypeError(problem)
    return named


def check(owner, layers):
    """Raises for parameters that the core cannot share."""
    from torch.nn.parameter import UninitializedParameter

    if not layers:
        raise ValueError(f"{owner}: the model has no parameters")
    for layer in layers:
        for local, parameter in layer.parameters:
            name = f"{layer.name}.{local}" if layer.name else local
            if getattr(parameter, "_is_flat_param", False):
                raise TypeError(
                    f"{owner}: parameter '{name}' is many parameters in one row, as FullyShardedDataParallel joins them, "
                    "expected those of layers; use fully_shard()"
                )
            if isinstance(parameter, UninitializedParameter):
                raise ValueError(
                    f"{owner}: parameter '{name}' has no shape yet, expected one that has; run a batch "
                    "through the lazy module before the optimizer is made"
                )
            if parameter.is_meta:
                raise ValueError(
                    f"{owner}: parameter '{name}' is on meta, expected a device with memory; make the optimizer "
                    "after the model has been given its memory"
                )
            if parameter.is_cuda and not _core.with_cuda:
                raise RuntimeError(
                    f"{owner}: parameter '{name}' is on a GPU, but adaact was built without CUDA kernels; install it "
                    "again where nvcc of torch's CUDA version is on the PATH"
                )
            if type(parameter).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ and not is_sharded(parameter):
                raise TypeError(
                    f"{owner}: parameter '{name}' is a {type(parameter).__name__}, expected a plain tensor or rows of "
                    "one that fully_shard() has divided"
                )


def groups_of(owner, params, layers):
    """Those given, or all parameters in one."""
    if params is not None and not hasattr(params, "__iter__"):
        raise TypeError(f"{owner}: params is {params!r} of type {type(params).__name__}, expected some of the model's "
                        "parameters or groups of them; options are given by name, such as lr=0.1")
    if params is not None:
        return params
    seen = {}
    for layer in layers:
        for _, parameter in layer.parameters:
            seen.setdefault(id(parameter), parameter)  # a tied one is listed once
    return list(seen.values())


def names_of(layers):
    """By parameter; of a tied one the first name, as in the core."""
    names = {}
    for layer in layers:
        for local, parameter in layer.parameters:
            names.setdefault(parameter, f"{layer.name}.{local}" if layer.name else local)
    return names
