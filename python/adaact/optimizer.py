"""What all optimizers of this package have in common: torch.optim's interface around one of the core."""

from __future__ import annotations

import weakref
from typing import Any, Callable

import torch

from adaact import _core, _model
from adaact._compiled import TracedSums
from adaact._groups import HasGroups
from adaact._observing import HasObservations
from adaact._options import as_json, options_of
from adaact._sharded import Shards, is_sharded, sum_over_processes
from adaact._state import HasState
from adaact._unobserved import Unobserved
from adaact.ranks import communicator_for, process_group_communicator, warn_of_statistics_of_one_process


class Optimizer(HasGroups, HasObservations, HasState, torch.optim.Optimizer):
    """One of the core's optimizers; adaact.AdaAct and the others derive from it."""

    registered_name: str | None = None  # in the C++ registry
    # A GradScaler then leaves it to step() to skip the step, so that its observations are dropped too.
    _step_supports_amp_scaling = True

    def __init__(self, model: Any, params: Any = None, *, base: str = "sgd", **options: Any) -> None:
        if self.registered_name is None:
            raise TypeError("adaact.Optimizer has no algorithm; make one of those that derive from it")
        if not isinstance(base, str):
            raise TypeError(f"{self._label}: base is {base!r} of type {type(base).__name__}, expected an optimizer's name")
        if base != "sgd" and self.registered_name != "sam":
            raise TypeError(f"{self._label}: there is no option 'base'")
        self._base = base
        self._options = self._known_options()
        as_json(self._label, self._options, options)  # what is wrong with them is told first
        module = _model.unwrapped(model)
        layers = _model.layers_of(module)
        _model.check(self._label, layers)
        defaults = {name: options.get(name, option.default) for name, option in self._options.items()}
        self._build(layers, _model.groups_of(self._label, params, layers), defaults,
                    list(module.buffers()) if isinstance(module, torch.nn.Module) else [])
        if isinstance(module, torch.nn.Module) and self._core.takes_sums():
            self._traced = TracedSums(self._label, self._names, module)
            self._cover_groups()
            weakref.finalize(self, self._traced.remove)
        communicator = communicator_for(model)
        if communicator is not None:
            if self._reads_output_gradients:
                raise ValueError(
                    f"{self._label}: in DistributedDataParallel a layer's output has the gradient of one process's "
                    "mean, expected that of the mean over all; add up the gradients yourself and call share_statistics()")
            self._share(communicator)

    def _build(self, layers, groups, defaults, buffers):
        self._layers = layers
        self._buffers = buffers
        self._core = None  # while torch collects the groups
        self._names = _model.names_of(layers)
        self._shards = Shards(self._label, self.registered_name, self._names) if any(
            map(is_sharded, self._names)) else None
        super().__init__(groups, defaults)
        described = [(self._local(group["params"]), self._json_of(group)) for group in self.param_groups]
        self._core = _core.Optimizer(
            self.registered_name, [layer.as_tuple(self._local_one) for layer in layers], described,
            self._json_of({**defaults, **({"base": self._base} if self.registered_name == "sam" else {})}), buffers)
        self._known = [{} for _ in self.param_groups]
        self._members = [list(group["params"]) for group in self.param_groups]
        self._share_with = None
        self._has_stepped = False
        self._pauses = 0
        self._skipped_shards = 0
        self._unscaled = []  # gradients that a step has divided by a GradScaler's scale
        self._traced = None  # of a copy: it knows no modules
        self._unobserved = (Unobserved(self._label, self._core, layers, self._local_one)
                            if self._core.coverage() is not None else None)
        self._take_groups()

    def _local_one(self, parameter):
        return parameter if self._shards is None else self._shards.local(parameter)

    def _local(self, parameters):
        """What the core knows them as."""
        return [self._local_one(parameter) for parameter in parameters]

    @property
    def _label(self):
        return type(self).__name__

    @property
    def _reads_output_gradients(self):
        return "kfac" in (self.registered_name, self._base)

    def _known_options(self):
        try:
            return options_of(self.registered_name, self._base)
        except RuntimeError as error:
            raise ValueError(str(error)) from None

    # Steps.

    @torch._disable_dynamo
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Takes a step. Everything observed since the last one counts as one batch.

        Raises NonFiniteError where a gradient or a statistic is not finite, unless non_finite_policy is 'skip'; in
        each case nothing has changed.
        """
        try:
            return self._step(closure)
        except BaseException:
            self.discard_observations()
            self._undo_scaling()
            raise
        finally:
            self._unscaled = []  # else they would outlive zero_grad()

    def _step(self, closure):
        self._send_groups()
        if not self._has_stepped:
            self._has_stepped = True
            if self._share_with is None and self._shards is None and self._core.coverage() is not None:
                warn_of_statistics_of_one_process(takes_wrapped_models=not self._reads_output_gradients)
        if self.registered_name == "sam":
            return self._step_of_sam(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._is_skipped_by_scaler():
            self.discard_observations()
            return loss
        if self._shards is None:
            if self._traced is not None:
                self._traced.hand_over(self._core, self.param_groups)
            self._step_of_core()
        else:
            self._step_of_shards()
        return loss

    def _step_of_core(self, closure=None):
        before = self._core.steps()
        self._core.step(closure)
        if self._unobserved is not None and self._core.steps() > before:
            self._unobserved.look(self.param_groups, self._traced is not None and self._traced.has_received)

    def _step_of_shards(self):
        self._shards.take_gradients()
        try:
            if self._traced is None:
                may_step = sum_over_processes([], self._core, self.param_groups, self._shards)
            else:
                may_step = self._traced.hand_over(self._core, self.param_groups, self._shards)
            if may_step:
                self._step_of_core()
                return
            self.discard_observations()
            if self.param_groups[0]["non_finite_policy"] == "throw":
                raise _core.NonFiniteError(
                    f"{self._label}: a gradient or a statistic of one of the processes is not finite; the step was "
                    "rejected and nothing has changed")
            self._skipped_shards += 1
        finally:
            self._shards.drop_gradients()

    def _step_of_sam(self, closure):
        if closure is None:
            raise TypeError(
                "Sam: step() was given no closure, expected one that computes the loss and its gradients: "
                "it runs twice")
        if getattr(self, "grad_scale", None) is not None or getattr(self, "found_inf", None) is not None:
            raise RuntimeError("Sam: a GradScaler cannot scale its two passes; use bfloat16, which needs none")
        losses = []
        self._step_of_core(lambda: losses.append(self._pass_of_sam(closure, is_second=bool(losses))))
        return losses[0]

    def _pass_of_sam(self, closure, is_second):
        """What is observed in the first pass is the step's."""
        if self._traced is None:
            return closure()
        self._traced.pause(is_second or self._pauses > 0)
        try:
            loss = closure()
        finally:
            self._pause_traced()
        self._traced.hand_over(self._core, self.param_groups)
        return loss

    def _is_skipped_by_scaler(self):
        """Divides gradients by what a GradScaler has multiplied the loss with."""
        found_inf = getattr(self, "found_inf", None)
        if found_inf is not None and bool(found_inf):
            return True
        scale = getattr(self, "grad_scale", None)
        if scale is not None:
            with torch.no_grad():
                for group in self.param_groups:
                    for parameter in group["params"]:
                        if parameter.grad is not None:
                            parameter.grad.div_(scale.to(parameter.grad.device))
                            self._unscaled.append(parameter.grad)
        return False

    def _undo_scaling(self):
        """After an error. A GradScaler would multiply the next scale by the one that it finds here."""
        scale = self.__dict__.pop("grad_scale", None)
        self.__dict__.pop("found_inf", None)
        with torch.no_grad():
            for gradient in self._unscaled:
                gradient.mul_(scale.to(gradient.device))  # exact, since scales are powers of two unless told otherwise

    @property
    def steps(self) -> int:
        """Steps taken, those rejected not counted."""
        return self._core.steps()

    @property
    def skipped_steps(self) -> int:
        """Steps that were skipped because something was not finite."""
        return self._core.skipped_steps() + self._skipped_shards

    # Several processes.

    def share_statistics(self, process_group: Any = None, share_factors: bool = True) -> None:
        """Adds up what is observed over the processes of a group, the default one if None.

        Done by itself for a model in DistributedDataParallel. Gradients are not this optimizer's to add up.
        """
        device = self.param_groups[0]["params"][0].device
        self._share(process_group_communicator(process_group, device), share_factors)

    def _share(self, communicator, share_factors=True):
        self._share_with = communicator  # which must live as long as the core does
        self._core.share(communicator, share_factors)
