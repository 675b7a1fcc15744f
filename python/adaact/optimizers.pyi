# Written by python -m adaact._stubs from the C++ registry.
from collections.abc import Iterable
from typing import Any

import torch

from adaact.optimizer import Optimizer

_Model = torch.nn.Module | Iterable[tuple[str, torch.Tensor]]
_Params = Iterable[torch.Tensor] | Iterable[dict[str, Any]] | None

class AdaAct(Optimizer):
    def __init__(
        self,
        model: _Model,
        params: _Params = None,
        *,
        lr: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.002,
        power: float = 0.5,
        clip_range: tuple[float, float] = ...,
        covariance: str = 'diagonal',
        damping: float = 0.01,
        refresh_period: int = 10,
        unobserved_rule: str = 'plain_gradient',
        non_finite_policy: str = 'throw',
    ) -> None: ...

class Adam(Optimizer):
    def __init__(
        self,
        model: _Model,
        params: _Params = None,
        *,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        non_finite_policy: str = 'throw',
    ) -> None: ...

class AdamW(Optimizer):
    def __init__(
        self,
        model: _Model,
        params: _Params = None,
        *,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        non_finite_policy: str = 'throw',
    ) -> None: ...

class Adan(Optimizer):
    def __init__(
        self,
        model: _Model,
        params: _Params = None,
        *,
        lr: float = 0.001,
        betas: tuple[float, float, float] = (0.98, 0.92, 0.99),
        eps: float = 1e-08,
        weight_decay: float = 0.02,
        proximal: bool = True,
        max_grad_norm: float = ...,
        non_finite_policy: str = 'throw',
    ) -> None: ...

class Foof(Optimizer):
    def __init__(
        self,
        model: _Model,
        params: _Params = None,
        *,
        lr: float = 0.05,
        momentum: float = 0.9,
        beta2: float = 0.95,
        weight_decay: float = 0.0005,
        damping: float = 1.0,
        covariance_period: int = 5,
        inverse_period: int = 50,
        inverse: str = 'cholesky',
        scale: str = 'paper',
        kl_clip: float = ...,
        max_factor_size: int = 8192,
        non_finite_policy: str = 'throw',
    ) -> None: ...

class Kfac(Optimizer):
    def __init__(
        self,
        model: _Model,
        params: _Params = None,
        *,
        lr: float = 0.05,
        momentum: float = 0.9,
        beta2: float = 0.9,
        weight_decay: float = 0.0005,
        damping: float = 0.001,
        kl_clip: float = 0.001,
        covariance_period: int = 5,
        inverse_period: int = 50,
        inverse: str = 'eigen',
        scale: str = 'per_sample',
        max_factor_size: int = 8192,
        non_finite_policy: str = 'throw',
    ) -> None: ...

class Lamb(Optimizer):
    def __init__(
        self,
        model: _Model,
        params: _Params = None,
        *,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-06,
        weight_decay: float = 0.01,
        max_grad_norm: float = 1.0,
        trust_clip: bool = False,
        always_adapt: bool = False,
        non_finite_policy: str = 'throw',
    ) -> None: ...

class SGD(Optimizer):
    def __init__(
        self,
        model: _Model,
        params: _Params = None,
        *,
        lr: float = 0.1,
        momentum: float = 0.9,
        dampening: float = 0.0,
        weight_decay: float = 0.0005,
        nesterov: bool = False,
        non_finite_policy: str = 'throw',
    ) -> None: ...

class Sam(Optimizer):
    def __init__(
        self,
        model: _Model,
        params: _Params = None,
        *,
        base: str = 'sgd',
        rho: float = 0.05,
        adaptive: bool = False,
        non_finite_policy: str = 'throw',
        lr: float = 0.1,
        momentum: float = 0.9,
        dampening: float = 0.0,
        weight_decay: float = 0.0005,
        nesterov: bool = False,
        **options: Any,
    ) -> None: ...
