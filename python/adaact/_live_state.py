"""What optimizer.state is made of."""

from collections.abc import MutableMapping

REMOVED = object()


class LiveDict(dict):
    """A dict that tells of each change before it makes it. A copy of it is a plain dict, which tells nobody."""

    def __init__(self, values=(), on_change=lambda key, value: None, on_missing=None):
        super().__init__(values)
        self._on_change = on_change  # given the key, and the new value or REMOVED
        self._on_missing = on_missing  # given the key, makes what is read there; None: it is an error

    def __missing__(self, key):
        if self._on_missing is None:
            raise KeyError(key)
        return self._on_missing(key)

    def __setitem__(self, key, value):
        self._on_change(key, value)
        super().__setitem__(key, value)

    def __delitem__(self, key):
        if key not in self:
            raise KeyError(key)
        self._on_change(key, REMOVED)
        super().__delitem__(key)

    # Those of dict itself would go past the two above.
    clear = MutableMapping.clear
    popitem = MutableMapping.popitem
    update = MutableMapping.update

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key, *default):
        if key not in self:
            if default:
                return default[0]
            raise KeyError(key)
        value = self[key]
        del self[key]
        return value

    def __ior__(self, other):
        self.update(other)
        return self

    def __reduce_ex__(self, protocol):
        return dict, (dict(self),)
