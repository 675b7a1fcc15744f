"""Algorithm 1 of the paper by forward hooks in float64, written as plainly as possible: the oracle of these tests.

It shares nothing with the package. A layer's patch matrix is built by torch's unfold.
"""

import torch
from torch import nn
from torch.nn import functional as F


def rows_of(module, x):
    """The layer's input as a matrix with a row for each sample and position: (groups, rows, features)."""
    x = x.detach()
    if isinstance(module, nn.Linear):
        return x.reshape(1, -1, x.shape[-1])
    spans = [dilation * (kernel - 1) + 1 for kernel, dilation in zip(module.kernel_size, module.dilation)]
    if module.padding == "same":
        padding = [((span - 1) // 2, span // 2) for span in spans]  # of an odd number the larger half after it
    else:
        padding = [(each, each) for each in ([0] * len(spans) if module.padding == "valid" else module.padding)]
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    patches = F.pad(x, [each for both in reversed(padding) for each in both], mode=mode)
    for dim, (span, stride, dilation) in enumerate(zip(spans, module.stride, module.dilation), 2):
        patches = patches.unfold(dim, span, stride)[..., ::dilation]  # (n, channels, positions..., kernel...)
    patches = patches.movedim(1, len(spans) + 1).flatten(len(spans) + 1).flatten(0, len(spans))
    return patches.unflatten(1, (module.groups, -1)).transpose(0, 1)


class Reference:
    """AdaAct with the defaults, or a learning rate and decay of one's own, for linear layers and convolutions."""

    def __init__(self, model, lr=0.1, betas=(0.9, 0.999), eps=1e-8, weight_decay=2e-3, power=0.5):
        self.lr, self.betas, self.eps, self.weight_decay, self.power = lr, betas, eps, weight_decay, power
        self.model = model
        self.sums = {}
        self.state = {}
        self.biases = set()
        for module in model.modules():
            if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)):
                module.register_forward_pre_hook(self._see)

    def _see(self, module, inputs):
        if not torch.is_grad_enabled() or not module.training:
            return
        self.add(module.weight, rows_of(module, inputs[0]))
        if module.bias is not None:
            self.biases.add(module.bias)

    def add(self, weight, rows):
        total, count = self.sums.get(weight, (0, 0))
        self.sums[weight] = (total + rows.square().sum(1), count + rows.shape[1])

    @torch.no_grad()
    def step(self):
        for theta in self.model.parameters():
            if theta.grad is None:
                continue
            state = self.state.setdefault(theta, {"m": torch.zeros_like(theta), "t": 0, "v": 0, "k": 0})
            if theta in self.sums:
                total, count = self.sums[theta]
                state["v"] = self.betas[1] * state["v"] + (1 - self.betas[1]) * total / count
                state["k"] += 1
            if state["k"] == 0 and theta not in self.biases:
                theta -= self.lr * (theta.grad + self.weight_decay * theta)
                continue
            state["t"] += 1
            state["m"] = self.betas[0] * state["m"] + (1 - self.betas[0]) * theta.grad
            m_hat = state["m"] / (1 - self.betas[0] ** state["t"])
            scale = torch.ones_like(theta)
            if state["k"] > 0:
                v_hat = state["v"] / (1 - self.betas[1] ** state["k"])  # (groups, features)
                groups = v_hat.shape[0]
                scale = v_hat.unsqueeze(1).expand(groups, theta.shape[0] // groups, -1).reshape(theta.shape)
            theta -= self.lr * (m_hat / (scale**self.power + self.eps) + self.weight_decay * theta)
        self.sums = {}
