"""Weights that are trained but not observed, at whatever step it happens.

The core warns of layers that its first step saw no use of. What starts later, as when a model is compiled or its hooks
are taken off in the middle of training, and weights that no layer of torch's owns, are told here: each weight once.
"""

from typing import NamedTuple

import torch
from torch import nn

from adaact._groups import weights_taking_sums
from adaact._warn import warn

# How reasons in coverage() begin.
_TOO_LARGE = "a factor would have"
_MULTIPLIED_BY_ROWS = "its rows meet the inputs"


class _Watched(NamedTuple):
    name: str
    parameter: torch.Tensor
    rows: torch.Tensor  # what the core knows it as
    is_weight: bool  # of a layer for certain
    is_part: bool  # of what a layer's weight is computed of


class Unobserved:
    """Looks at what an optimizer has observed for each step."""

    def __init__(self, label, core, layers, local):
        self._label = label
        self._core = core
        by_parameter = {}
        for layer in layers:
            for local_name, parameter in layer.parameters:
                if _may_be_a_weight(layer, local_name, parameter):
                    name = f"{layer.name}.{local_name}" if layer.name else local_name
                    by_parameter.setdefault(parameter, _Watched(name, parameter, local(parameter),
                                                                layer.has_weight(local_name),
                                                                layer.has_part_of_weight(local_name)))
        self._watched = list(by_parameter.values())
        self._output_projections = {module.out_proj.weight for layer in layers
                                    if isinstance(module := layer.module and layer.module(), nn.MultiheadAttention)}
        self._told = set()
        self.missed = set()  # names of those that the last step did not see
        self._is_first_look = True
        self.core_tells = True  # of weights that it knows for such, at its first step
        core.watch([each.rows for each in self._watched])

    def start_anew(self):
        """After a state was loaded."""
        self._is_first_look = True
        self.core_tells = False
        self.missed = set()
        self._core.note_observations()

    def look(self, param_groups, sees_graphs):
        """After each step that was taken; sees_graphs says that a compiled graph has reported what it saw."""
        core_tells, self.core_tells = self.core_tells, False
        observed = self._core.note_observations()
        if all(observed):
            self.missed = set()
            return
        due = self._due(param_groups)
        if not due:
            return
        is_first_look, self._is_first_look = self._is_first_look, False
        missed = [each for each, seen in zip(self._watched, observed)
                  if not seen and each.parameter in due and each.rows.requires_grad and each.rows.grad is not None
                  and each.rows.numel() > 0]
        self.missed = {each.name for each in missed if each.is_weight}
        # Eager code shows every use of a parameter. One of no layer that is not seen there is no weight, unless it was
        # multiplied in another way.
        counts_others = sees_graphs or not any(observed)
        by_rows = self._with_reason(_MULTIPLIED_BY_ROWS) if is_first_look else set()
        if core_tells:
            self._told |= self.missed | by_rows
            self._explain([each.name for each in missed if each.parameter in self._output_projections], sees_graphs)
        news = [each for each in missed
                if each.name not in self._told
                and (each.is_weight or each.is_part or counts_others or each.name in by_rows)]
        if news:
            self._told.update(each.name for each in news)
            too_large = self._with_reason(_TOO_LARGE)  # the core warns of those
            self._warn([each for each in news if each.name not in too_large], bool(weights_taking_sums(param_groups)))

    def _with_reason(self, beginning):
        return {name for name, _, reason in self._core.coverage() if reason.startswith(beginning)}

    def _due(self, param_groups):
        """The parameters that the step which was just taken had to observe."""
        steps_before = self._core.steps() - 1
        return {parameter for group in param_groups if steps_before % group.get("covariance_period", 1) == 0
                for parameter in group["params"]}

    def _warn(self, weights, has_hooks):
        if weights:
            names = ", ".join(each.name for each in weights)
            rule = "unobserved_rule" if self._core.takes_sums() else "momentum SGD"
            seen = "only the inputs of layers with hooks are seen" if has_hooks else "nothing is seen"
            parts = (" A weight that is computed of others in each use, as by weight_norm, spectral_norm, prune or "
                     "parametrizations, is not observed." if any(each.is_part for each in weights) else "")
            warn(f"{self._label}: a step saw no use of weights that have gradients: {names}. Such a step goes "
                 f"by what was observed before, or by {rule} where that is nothing.{parts} In a "
                 f"compiled graph {seen}; coverage() tells more.")

    def _explain(self, output_projections, sees_graphs):
        if output_projections and sees_graphs:
            warn(f"{self._label}: a compiled graph does not show what flows into {', '.join(output_projections)}. The "
                 "output projection of MultiheadAttention is no call of a layer, so that no hook sees it: it is trained by "
                 "unobserved_rule.")


def _may_be_a_weight(layer, local_name, parameter):
    if layer.has_part_of_weight(local_name):
        return parameter.dim() > 1
    # A position embedding or a class token has one row, and is none.
    is_matrix = parameter.dim() == 2 or (parameter.dim() > 2 and parameter.shape[0] > 1)
    return is_matrix and (layer.kind == "other" or layer.has_weight(local_name))
