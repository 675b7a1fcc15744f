"""Which parameters are observed."""

from __future__ import annotations

from typing import Any


class Coverage(list[dict[str, Any]]):
    """A dict for each parameter: name, observed, reason. As text a table."""

    def __str__(self) -> str:
        width = max(len(each["name"]) for each in self)
        return "\n".join(f"{each['name']:<{width}}  {'observed' if each['observed'] else 'not observed':<12}  "
                         f"{each['reason']}" for each in self)
