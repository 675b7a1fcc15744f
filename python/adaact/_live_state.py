"""What optimizer.state is made of."""

from collections.abc import MutableMapping

REMOVED = object()


class LiveDict(dict):
    """A dict that tells of each change before it makes it. A copy of it is a plain dict, which tells nobody."""

    def __init__(self, values=(), on_change=lambda key, value: None):
        super().__init__(values)
        self._on_change = on_change  # given the key, and the new value or REMOVED

    def __setitem__(self, key, value):
        self._on_change(key, value)
        super().__setitem__(key, value)

    def __delitem__(self, key):
        self[key]  # is an error if it is not there
        self._on_change(key, REMOVED)
        super().__delitem__(key)

    # Those of dict itself would go past the two above.
    clear = MutableMapping.clear
    popitem = MutableMapping.popitem
    setdefault = MutableMapping.setdefault
    update = MutableMapping.update

    def pop(self, key, *default):
        if default and key not in self:
            return default[0]
        value = self[key]
        del self[key]
        return value

    def __ior__(self, other):
        self.update(other)
        return self

    def __reduce_ex__(self, protocol):
        return dict, (dict(self),)
