"""The options of each optimizer, as the C++ registry describes them."""

import functools
import inspect
import json
import math
import numbers

from adaact import _core

# What an option is, in words; names, kinds, defaults and ranges are the registry's.
MEANINGS = {
    "adaptive": "perturb in units of the weights' size",
    "amsgrad": "divide by the largest second moment so far",
    "base": "the optimizer that takes the step",
    "beta2": "decay of the factors' averages",
    "betas": "decays of the moving averages",
    "clip_range": "lower and upper end of the inputs' second moments",
    "covariance": "diagonal: the paper's method; full: the whole matrix of each layer's input",
    "covariance_period": "steps between two measurements of the factors",
    "damping": "added to eigenvalues",
    "dampening": "dampening of the momentum",
    "eps": "added to the divisor",
    "inverse": "how damped factors are inverted",
    "inverse_period": "steps between two inverses",
    "kl_clip": "bound of the step's estimated KL divergence",
    "lr": "learning rate",
    "max_factor_size": "rows of a factor at most; larger layers take the plain gradient",
    "max_grad_norm": "bound of the norm of all gradients together",
    "momentum": "momentum",
    "nesterov": "Nesterov's momentum",
    "no_prox": "decay as AdamW does",
    "non_finite_policy": "what a step does where a value is not finite: throw NonFiniteError, or skip the step",
    "power": "exponent of the second moment",
    "proximal": "decay proximally: divide by 1 + lr weight_decay",
    "refresh_period": "observations between two decompositions of the full covariance",
    "rho": "radius of the neighbourhood",
    "trust_clip": "trust ratio of at most 1",
    "always_adapt": "trust ratio without weight decay too",
    "unobserved_rule": "the update of a parameter that no input was observed of",
    "weight_decay": "weight decay",
}

# Where one name means different things.
MEANINGS_BY_OPTIMIZER = {
    ("foof", "scale"): "how covariances are averaged, as in the paper or as in the AdaAct authors' code",
    ("kfac", "scale"): "what the factors are means of",
}


class Option:
    """One option of an optimizer."""

    def __init__(self, optimizer, described):
        self.name = described["name"]
        self.kind = described["type"]
        self.default = self.from_json(described["default"])
        self.expected = described["expected"].replace(" (null in JSON)", "")
        self.meaning = MEANINGS_BY_OPTIMIZER.get((optimizer, self.name)) or MEANINGS.get(self.name, "")

    @property
    def annotation(self):
        if self.kind == "numbers":
            return "tuple[" + ", ".join(["float"] * len(self.default)) + "]"
        return {"number": "float", "integer": "int", "boolean": "bool", "choice": "str"}[self.kind]

    def from_json(self, value):
        """A value as it stands in param_groups."""
        if self.kind == "numbers":
            return tuple(math.inf if each is None else float(each) for each in value)
        if self.kind == "number":
            return math.inf if value is None else float(value)
        return value

    def to_json(self, owner, value):
        """A user's value for JSON; a TypeError or ValueError names the option."""
        if self.kind == "number":
            return self._number(owner, value)
        if self.kind == "numbers":
            if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
                self._refuse(owner, value)
            return [self._number(owner, each) for each in value]
        if self.kind == "integer":
            if isinstance(value, bool) or not isinstance(value, numbers.Integral):
                self._refuse(owner, value)
            return int(value)
        if not isinstance(value, bool if self.kind == "boolean" else str):
            self._refuse(owner, value)
        return value

    def _number(self, owner, value):
        try:
            if isinstance(value, (str, bytes, bool)):
                raise TypeError
            number = float(value)  # also of numpy, and a tensor with one element
        except OverflowError:
            raise ValueError(f"{owner}: {self.name} is an integer that no float64 holds, expected {self.expected}") from None
        except (TypeError, ValueError, RuntimeError):
            self._refuse(owner, value)
        if math.isnan(number):
            raise ValueError(f"{owner}: {self.name} is nan, expected {self.expected}")
        if math.isinf(number) and number < 0:
            raise ValueError(f"{owner}: {self.name} is -inf, expected {self.expected}")
        return None if math.isinf(number) else number

    def _refuse(self, owner, value):
        wanted = {
            "number": self.expected,
            "numbers": f"{len(self.default) if self.kind == 'numbers' else 0} numbers, each {self.expected}",
            "integer": f"an integer, {self.expected}",
        }.get(self.kind, self.expected)
        raise TypeError(f"{owner}: {self.name} is {value!r} of type {type(value).__name__}, expected {wanted}")


@functools.lru_cache(maxsize=None)
def options_of(name, sam_base="sgd"):
    """The options of an optimizer of the registry, by name, in the registry's order."""
    described = json.loads(_core.describe_options(name, sam_base))
    return {each["name"]: Option(sam_base if name == "sam" else name, each) for each in described}


def as_json(owner, options, values):
    """Values as the registry wants them. Unknown names are an error that lists the known."""
    for name in values:
        if name not in options:
            raise TypeError(f"{owner}: there is no option '{name}'; there are: {', '.join(sorted(options))}")
    return json.dumps({name: options[name].to_json(owner, value) for name, value in values.items()})


def signature_of(name, sam_base="sgd"):
    """How the constructor is called."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter("model", positional),
        inspect.Parameter("params", positional, default=None),
    ]
    if name == "sam":
        parameters.append(inspect.Parameter("base", keyword, default=sam_base, annotation="str"))
    for option in options_of(name, sam_base).values():
        parameters.append(
            inspect.Parameter(option.name, keyword, default=option.default, annotation=option.annotation)
        )
    return inspect.Signature(parameters)


def describe(name, sam_base="sgd"):
    """The part of a docstring that lists the options."""
    lines = ["    model: the module that is trained, or its named parameters",
             "    params: some of its parameters, or groups of them as dicts, as torch.optim takes them; all if None"]
    if name == "sam":
        lines.append(f"    base: {MEANINGS['base']}, by name; takes the options that are not Sam's own")
    for option in options_of(name, sam_base).values():
        default = f"'{option.default}'" if option.kind == "choice" else option.default
        lines.append(f"    {option.name} ({option.annotation}): {option.meaning}; {option.expected}; default {default}")
    return "\n".join(lines)
