"""The options of parameter groups: torch's schedulers, and everybody else, change them in param_groups."""

from __future__ import annotations

import json
import operator
from typing import Any

import torch

from adaact._options import as_json


class HasGroups:
    """What adaact.Optimizer does with its groups, which the core has too."""

    def _json_of(self, group):
        given = {name: value for name, value in group.items() if name in self._options}
        text = as_json(self._label, self._options, given)
        if "base" in group:
            text = json.dumps({**json.loads(text), "base": group["base"]})
        return text

    def _send_groups(self):
        """Tells the core of options that have changed since it was told last."""
        self._check_groups()
        for index, group in enumerate(self.param_groups):
            known = self._known[index]
            changed = {name: group[name] for name in known if group[name] is not known[name]}
            if not changed:
                continue
            self._core.change_options(index, self._json_of(changed))
            if "covariance" in changed:
                self._cover_groups()
            # What may be changed in place is sent every time.
            known.update({name: None if isinstance(value, (torch.Tensor, list)) else value
                          for name, value in changed.items()})

    def _check_groups(self):
        """Raises where groups are not those that the core has."""
        if len(self.param_groups) != len(self._known):
            raise ValueError(f"{self._label}: there are {len(self.param_groups)} groups in param_groups, expected "
                             f"{len(self._known)}; add one by add_param_group(), and to drop one make a new optimizer")
        for index, (group, known, members) in enumerate(zip(self.param_groups, self._known, self._members)):
            missing = [name for name in (*known, "params") if name not in group]
            if missing:
                raise ValueError(f"{self._label}: param_groups[{index}] has no '{missing[0]}', expected the options "
                                 "that it was made with")
            params = group["params"]
            if len(params) != len(members) or not all(map(operator.is_, params, members)):
                raise ValueError(f"{self._label}: param_groups[{index}] has other parameters than it was made with; "
                                 "add some by add_param_group(), and to drop some make a new optimizer")

    def _take_groups(self):
        for index in range(len(self.param_groups)):
            self._take_group(index)
        self._cover_groups()

    def _take_group(self, index):
        """Takes over the options that the core has. Where a number is a tensor, as for schedulers that change it in
        place, it stays that tensor."""
        group, known = self.param_groups[index], self._known[index]
        for name, value in json.loads(self._core.options(index)).items():
            if name not in self._options:
                continue
            value = self._options[name].from_json(value)
            held = group.get(name)
            if isinstance(held, torch.Tensor) and self._options[name].kind == "number":
                if held.item() != value:
                    held.fill_(value)
                known[name] = None  # sent every time
            else:
                group[name] = known[name] = value

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        if self._core is None:
            return
        group = self.param_groups[-1]
        try:
            self._core.add_group(self._local(group["params"]), self._json_of(group))
        except Exception:
            self.param_groups.pop()
            raise
        self._known.append({})
        self._members.append(list(group["params"]))
        self._take_group(len(self._known) - 1)
        self._cover_groups()


def weights_taking_sums(param_groups):
    """The weights whose inputs' squares are what the core wants."""
    return {parameter for group in param_groups if group.get("covariance") == "diagonal"
            for parameter in group["params"]}
