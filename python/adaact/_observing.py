"""What an optimizer observes, and what it says of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from adaact._coverage import Coverage


class HasObservations:
    """What adaact.Optimizer has seen of the model. The core and the hooks of _compiled.py look."""

    def coverage(self) -> Coverage:
        """For every parameter a dict: its name, whether what was observed shapes its update, and why or why not.
        Printed, it is a table."""
        known = self._core.coverage()
        if known is None:
            reason = f"{self._label} observes nothing"
            known = [(name, False, reason) for name in self._names.values()]
        missed = self._unobserved.missed if self._unobserved is not None else ()
        return Coverage({"name": name, "observed": observed,
                         "reason": f"{reason}, but not in the last step" if observed and name in missed else reason}
                        for name, observed, reason in known)

    @contextlib.contextmanager
    def pause_observation(self) -> Iterator[None]:
        """Nothing is observed within: for a forward pass in training mode that belongs to no step."""
        self._core.pause()
        self._pauses += 1
        self._pause_traced()
        try:
            yield
        finally:
            self._core.resume()
            self._pauses -= 1
            self._pause_traced()

    def _pause_traced(self):
        if self._traced is not None:
            self._traced.pause(self._pauses > 0)

    def _cover_groups(self):
        """Sees to hooks for what groups and their options have become."""
        if self._traced is not None:
            self._traced.cover(self.param_groups)
            self._pause_traced()

    def remove_hooks(self) -> None:
        """Takes the hooks that torch.compile needs off the model: torch.jit.script refuses one that has hooks."""
        if self._traced is not None:
            self._traced.remove()

    def discard_observations(self) -> None:
        """Forgets what was observed since the last step."""
        self._core.discard_observations()
        if self._traced is not None:
            self._traced.clear()

    def observe(self, weight: torch.Tensor, input: torch.Tensor, output: torch.Tensor | None = None) -> None:
        """Reports the input of a linear layer that no operator of torch shows, as of a kernel of one's own."""
        self._check_tensors("observe()", weight=weight, input=input, output=weight if output is None else output)
        self._core.observe(weight, input, output)

    def second_moment(self, weight: torch.Tensor) -> torch.Tensor | None:
        """E[x²] of the inputs of this weight, as the next step would divide by it; None before the first step.
        A row for each run of rows that reads the same input."""
        self._check_tensors("second_moment()", weight=weight)
        return self._core.second_moment(self._local_one(weight))

    def _check_tensors(self, owner, **tensors):
        for name, value in tensors.items():
            if not isinstance(value, torch.Tensor):
                raise TypeError(f"{self._label}: {owner} was given for {name} {value!r} of type {type(value).__name__}, "
                                "expected a tensor")
