"""The optimizers by name. Constructors, options and docstrings follow the C++ registry."""

from adaact._options import describe, signature_of
from adaact.optimizer import Optimizer

_SUMMARIES = {
    "AdaAct": "Scales each layer's update by the second moment of the layer's input (Seung, Lee and Ko, 2024).",
    "Adam": "Adam, as LibTorch has it.",
    "AdamW": "AdamW, as LibTorch has it.",
    "Adan": "Adaptive Nesterov momentum (Xie et al., 2024).",
    "Foof": "Multiplies each layer's gradient by the inverse covariance of the layer's input (Benzing, 2022).",
    "Kfac": "Kronecker-factored approximate curvature (Martens and Grosse, 2015).",
    "Lamb": "Adam with a trust ratio for each layer (You et al., 2020).",
    "SGD": "Stochastic gradient descent, as LibTorch has it.",
    "Sam": "Steps another optimizer with the gradient at the worst point nearby (Foret et al., 2021).",
}


def _make(name):
    registered = name.lower()
    made = type(name, (Optimizer,), {"registered_name": registered, "__module__": __name__})
    made.__doc__ = f"{_SUMMARIES[name]}\n\nArgs:\n{describe(registered)}\n"
    made.__signature__ = signature_of(registered)
    return made


AdaAct = _make("AdaAct")
Adam = _make("Adam")
AdamW = _make("AdamW")
Adan = _make("Adan")
Foof = _make("Foof")
Kfac = _make("Kfac")
Lamb = _make("Lamb")
SGD = _make("SGD")
Sam = _make("Sam")
