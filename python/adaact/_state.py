"""The state of an optimizer: torch's dicts of it, files by names of parameters, copies."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Mapping
from typing import Any

import torch

from adaact._live_state import REMOVED, LiveDict
from adaact._sharded import is_sharded

_STATE_KEY = "adaact"  # of a state_dict: what torch's own optimizers do not have


class HasState:
    """What adaact.Optimizer says of its state. The core keeps it."""

    _packs_state = False  # while torch makes a state_dict, which is nobody's but the caller's

    @property
    def state(self) -> dict[torch.Tensor, Any]:
        """By parameter, copies of what the core keeps. What is assigned to an entry, or for a parameter, the core takes
        over as load_state_dict() does; what is changed within a tensor of it has to be assigned."""
        if self.__dict__.get("_core") is None:
            return {}
        entries, _ = self._core.export_state()
        known = {parameter: entries[name] for parameter, name in self._names.items() if name in entries}
        if self._shards is not None:
            known = {parameter: self._shards.as_saved(parameter, its) for parameter, its in known.items()}
        if self._packs_state:
            return known
        return LiveDict({parameter: self._live_entries(parameter, its) for parameter, its in known.items()},
                        self._change_entries, self._entries_of_new)

    def _live_entries(self, parameter, entries):
        return LiveDict(entries, functools.partial(self._change_entry, parameter))

    def _entries_of_new(self, parameter):
        """Before a parameter's first step there are none, which torch's optimizers do not call an error."""
        if parameter not in self._names:
            raise KeyError(parameter)
        return self._live_entries(parameter, {})

    @state.setter
    def state(self, value: Mapping[torch.Tensor, Mapping[str, Any]]) -> None:
        if self.__dict__.get("_core") is not None:  # torch's constructor makes an empty one
            self._replace_state({self._name_of(parameter): entries for parameter, entries in value.items()})

    def _change_entry(self, parameter, entry, value):
        entries = dict(self.state.get(parameter, {}))
        entries.pop(entry, None)
        self._change_entries(parameter, entries if value is REMOVED else {**entries, entry: value})

    def _change_entries(self, parameter, entries):
        known, _ = self._core.export_state()
        known[self._name_of(parameter)] = {} if entries is REMOVED else entries
        self._replace_state(known)

    def _replace_state(self, by_name):
        _, counters = self._core.export_state()
        self._core.import_state({name: _tensors(entries) for name, entries in by_name.items() if entries}, counters)
        self._note_new_state()

    def _name_of(self, parameter):
        if parameter not in self._names:
            raise KeyError(f"{self._label}: state was assigned for something that is no parameter of this optimizer")
        return self._names[parameter]

    def state_dict(self) -> dict[str, Any]:
        """As torch's optimizers give it, with the dtypes of the core: V and M of bfloat16 weights are float32."""
        self._packs_state = True
        try:
            found = super().state_dict()
        finally:
            self._packs_state = False
        _, counters = self._core.export_state()
        found[_STATE_KEY] = {"optimizer": self._algorithm, "counters": counters,
                             "parameters_with_state": len(found["state"])}
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a state that fits, options included, or raises and changes nothing."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        self._load(state_dict)
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _load(self, state_dict):
        for key in ("state", "param_groups", _STATE_KEY):
            if key not in state_dict:
                raise ValueError(f"{self._label}: the state has no entry '{key}', expected what state_dict() of an "
                                 "optimizer of adaact gives; states of torch's own optimizers and of "
                                 "torch.distributed.checkpoint are not taken")
        own = state_dict[_STATE_KEY]
        if own["optimizer"] != self._algorithm:
            raise ValueError(f"{self._label}: the state is of {own['optimizer']}, expected {self._algorithm}")
        if len(state_dict["state"]) != own["parameters_with_state"]:
            raise ValueError(f"{self._label}: the state has entries of {len(state_dict['state'])} parameters, expected "
                             f"{own['parameters_with_state']}; somebody has lost what state_dict() gave")
        groups = copy.deepcopy(state_dict["param_groups"])
        if [len(group["params"]) for group in groups] != [len(group["params"]) for group in self.param_groups]:
            raise ValueError(
                f"{self._label}: the state's parameter groups have {[len(group['params']) for group in groups]} "
                f"parameters, expected {[len(group['params']) for group in self.param_groups]}")
        names = [self._names[p] for group in self.param_groups for p in group["params"]]
        ids = [number for group in groups for number in group["params"]]
        by_name = dict(zip(ids, names))
        entries = {by_name[number]: _tensors(entries) for number, entries in state_dict["state"].items()}
        before = [self._core.options(index) for index in range(len(groups))]
        try:
            for index, group in enumerate(groups):
                self._core.change_options(index, self._json_of(group))
            self._core.import_state(entries, own["counters"])
        except Exception:
            for index, options in enumerate(before):
                self._core.change_options(index, options)
            raise
        for mine, saved in zip(self.param_groups, groups):
            saved.pop("params")
            mine.update(saved)
        self._after_loading()

    @property
    def _algorithm(self):
        """By its name in the registry: a class derived from AdaAct has AdaAct's state."""
        return f"sam over {self._base}" if self.registered_name == "sam" else self.registered_name

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state by names of parameters, as safetensors with a checksum. C++ reads and writes the same."""
        self._check_whole("save()")
        self._send_groups()
        self._core.save(os.fspath(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Takes over a state that save() or C++ has written, options included, or raises and changes nothing."""
        self._check_whole("load()")
        self._core.load(os.fspath(path))
        self._after_loading()

    def _after_loading(self):
        self._take_groups()
        self._note_new_state()

    def _note_new_state(self):
        if self._unobserved is not None:
            self._unobserved.start_anew()

    def _check_whole(self, what):
        if self._shards is not None:
            raise TypeError(f"{self._label}: {what} is for whole parameters, and these are sharded; "
                            "each process has its part in state_dict()")

    # Copies. They have copies of the parameters, and know nothing of the modules that these belong to.

    def __getstate__(self):
        self._check_whole("a copy")
        self._send_groups()
        entries, counters = self._core.export_state()
        return {"layers": self._layers, "base": self._base, "buffers": self._buffers, "defaults": self.defaults,
                "param_groups": self.param_groups, "entries": entries, "counters": counters}

    def __setstate__(self, state):
        self._base = state["base"]
        self._options = self._known_options()
        groups = [dict(group) for group in state["param_groups"]]
        self._build(state["layers"], groups, state["defaults"], state["buffers"])
        self._core.import_state(state["entries"], state["counters"])
        self._after_loading()


def _tensors(entries):
    """Entries for the core, of a sharded parameter this process's."""
    made = {name: value if isinstance(value, torch.Tensor) else torch.tensor(value) for name, value in entries.items()}
    return {name: value.to_local() if is_sharded(value) else value for name, value in made.items()}
