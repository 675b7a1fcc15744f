"""No weight is trained for long without what AdaAct divides by and without a word: each is warned of once."""

import warnings

import adaact
import pytest
import torch
from adaact import _compiled
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune


@pytest.fixture(autouse=True)
def _forget_graphs():
    torch._dynamo.reset()


def compiled(model):
    return torch.compile(model, backend="aot_eager")


def net():
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def warnings_of_steps(model, optimizer, steps=2):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
    return [str(each.message) for each in told if issubclass(each.category, UserWarning)]


class OwnParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.position = nn.Parameter(torch.zeros(1, 1, 4))
        self.own = nn.Parameter(torch.randn(2, 3))

    def forward(self, x):
        return F.linear(self.first(x + self.position[0]), self.own)


def test_named_parameters_of_a_compiled_model_are_warned_of():
    model = net()
    told = warnings_of_steps(compiled(model), adaact.AdaAct(model.named_parameters()))
    assert len(told) == 1 and "0.weight, 2.weight" in told[0]


def test_a_parameter_of_a_modules_own_is_warned_of_where_it_is_compiled():
    model = OwnParameter()
    told = warnings_of_steps(compiled(model), adaact.AdaAct(model))
    assert len(told) == 1 and "gradients: own." in told[0]


def test_in_eager_code_every_use_is_seen_and_nothing_is_warned_of():
    model = OwnParameter()
    assert warnings_of_steps(model, adaact.AdaAct(model)) == []


def test_a_model_that_is_compiled_without_hooks_later_is_warned_of_then():
    model = net()
    optimizer = adaact.AdaAct(model)
    assert warnings_of_steps(model, optimizer) == []
    optimizer.remove_hooks()
    told = warnings_of_steps(compiled(model), optimizer)
    assert len(told) == 1 and "0.weight, 2.weight" in told[0]
    reasons = {each["name"]: each["reason"] for each in optimizer.coverage()}
    assert reasons["0.weight"] == "weight of an observed layer, but not in the last step"
    assert warnings_of_steps(model, optimizer) == []
    assert "not in the last step" not in str(optimizer.coverage())


@pytest.mark.parametrize("by_file", [True, False])
def test_a_resumed_run_is_warned_of_too(by_file, tmp_path):
    first, model = net(), net()
    saved = adaact.AdaAct(first)
    warnings_of_steps(first, saved)
    optimizer = adaact.AdaAct(model)
    optimizer.remove_hooks()
    if by_file:
        saved.save(tmp_path / "state.safetensors")
        optimizer.load(tmp_path / "state.safetensors")
    else:
        optimizer.load_state_dict(saved.state_dict())
    told = warnings_of_steps(compiled(model), optimizer)
    assert len(told) == 1 and "0.weight, 2.weight" in told[0]


@pytest.mark.parametrize("make", [adaact.Foof, adaact.Kfac])
def test_a_resumed_run_of_factors_is_warned_of_when_they_are_due(make):
    first, model = net(), net()
    saved = make(first, covariance_period=2, inverse_period=2)
    warnings_of_steps(first, saved, steps=3)
    optimizer = make(model)
    optimizer.load_state_dict(saved.state_dict())
    assert warnings_of_steps(model, optimizer, steps=2) == []
    called = compiled(model)
    assert warnings_of_steps(called, optimizer, steps=1) == []  # the sixth step takes factors as they are
    told = warnings_of_steps(called, optimizer, steps=3)
    assert len(told) == 1 and "0.weight, 2.weight" in told[0] and "In a compiled graph nothing is seen" in told[0]
    assert optimizer.coverage()[0]["reason"].endswith("but not in the last step")


def test_factors_that_are_too_large_are_warned_of_by_that_alone():
    model = net()
    optimizer = adaact.Foof(model, max_factor_size=4)
    told = warnings_of_steps(model, optimizer, steps=12)
    assert len(told) == 1 and "0.weight" in told[0] and "max_factor_size" in told[0]
    other = adaact.Foof(model, max_factor_size=4)
    other.load_state_dict(optimizer.state_dict())
    told = warnings_of_steps(model, other, steps=12)
    assert len(told) == 1 and "max_factor_size" in told[0]


class MultipliedByRows(nn.Module):
    """As GPT-2 of transformers has its layers."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3))
        self.bias = nn.Parameter(torch.zeros(3))
        self.table = nn.Parameter(torch.zeros(3, 4))  # which is no weight
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(torch.addmm(self.bias, x + self.table, self.weight))


def test_a_weight_that_eager_code_multiplies_by_rows_is_warned_of():
    model = MultipliedByRows()
    optimizer = adaact.AdaAct(model)
    told = warnings_of_steps(model, optimizer)
    assert len(told) == 1 and "with these weights: weight." in told[0]
    reasons = {each["name"]: each["reason"] for each in optimizer.coverage()}
    assert reasons["weight"].startswith("its rows meet the inputs")
    resumed = adaact.AdaAct(model)
    resumed.load_state_dict(optimizer.state_dict())
    told = warnings_of_steps(model, resumed)
    assert len(told) == 1 and "gradients: weight." in told[0]


def test_the_first_step_warns_once_and_not_of_what_is_not_trained():
    model = net()
    optimizer = adaact.AdaAct(model, model[0].parameters())
    told = warnings_of_steps(model[0], optimizer)
    assert told == []
    optimizer = adaact.AdaAct(model)
    optimizer.remove_hooks()
    told = warnings_of_steps(compiled(model), optimizer)
    assert len(told) == 1 and "the first step saw no use" in told[0]


def test_sums_of_graphs_that_were_traced_elsewhere_are_taken(monkeypatch):
    model = net()
    optimizer = adaact.AdaAct(model)
    called = compiled(model)
    called(torch.randn(3, 4))
    optimizer.discard_observations()
    monkeypatch.setattr(_compiled, "_has_traced", False)  # as if the graph had been read from a file
    assert warnings_of_steps(called, optimizer) == []
    assert optimizer.state[model[0].weight]["segments"][0, 2].item() == 2


@pytest.mark.parametrize("strict", [False, True])
def test_an_export_leaves_nothing_behind_and_takes_nothing_with_it(strict):
    if strict and not hasattr(torch.compiler, "is_exporting"):
        pytest.skip("this torch does not tell an export from a compilation")
    model = net()
    optimizer = adaact.AdaAct(model)
    exported = torch.export.export(model, (100 * torch.randn(3, 4),), strict=strict)
    assert len(exported.state_dict) == len(list(model.parameters()))
    assert not exported.constants and len(exported.graph_signature.lifted_tensor_constants) == 0
    x = torch.randn(3, 4)
    compiled(model)(x).sum().backward()
    optimizer.step()
    torch.testing.assert_close(optimizer.second_moment(model[0].weight)[0], x.square().mean(0))


def pruned(layer):
    return prune.l1_unstructured(layer, "weight", 0.5)


REPARAMETRISED = {
    "weight_norm": (parametrizations.weight_norm, ["original0", "original1"]),
    "orthogonal": (parametrizations.orthogonal, ["original"]),
    "spectral_norm": (parametrizations.spectral_norm, ["original"]),
    "weight_norm of before": (nn.utils.weight_norm, ["weight_g", "weight_v"]),
    "spectral_norm of before": (nn.utils.spectral_norm, ["weight_orig"]),
    "prune": (pruned, ["weight_orig"]),
}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of what has been replaced
@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("kind", REPARAMETRISED)
def test_what_a_layers_weight_is_computed_of_is_warned_of(kind, is_compiled):
    reparametrise, parts = REPARAMETRISED[kind]
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), reparametrise(nn.Linear(4, 3)))
    names = [name for name, _ in model[2].named_parameters() if name.rpartition(".")[2] in parts]
    assert len(names) == len(parts)
    optimizer = adaact.AdaAct(model)
    told = warnings_of_steps(compiled(model) if is_compiled else model, optimizer)
    assert len(told) == 1 and f"gradients: {', '.join('2.' + name for name in names)}." in told[0]
    assert "weight_norm" in told[0]
    reasons = {each["name"]: each["reason"] for each in optimizer.coverage()}
    assert {reasons[f"2.{name}"] for name in names} == {"not seen as a layer's weight or bias"}


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_layer_that_is_pruned_later_is_warned_of_then(is_compiled):
    model = net()
    optimizer = adaact.AdaAct(model)
    called = compiled(model) if is_compiled else model
    assert warnings_of_steps(called, optimizer) == []
    pruned(model[2])
    told = [each for each in warnings_of_steps(called, optimizer) if "saw no use" in each]
    assert len(told) == 1 and "gradients: 2.weight." in told[0]


def test_what_an_embeddings_weight_is_computed_of_is_not():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = parametrizations.weight_norm(nn.Embedding(5, 4))
            self.head = nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.embedding(x.argmax(1)))

    model = Tokens()
    assert warnings_of_steps(model, adaact.AdaAct(model)) == []
