"""What the observer sees through Python: AdaAct against a reference that is written with forward hooks."""

import copy
import threading

import adaact
import pytest
import torch
from reference import Reference, rows_of
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def pair(model):
    """The model in float64, and a copy of it that the reference trains."""
    model = model.double()
    return model, copy.deepcopy(model)


def assert_same(model, other, tolerance=1e-11):
    for (name, mine), theirs in zip(model.named_parameters(), other.parameters()):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance, msg=lambda m: f"{name}: {m}")


def train_both(model, make_input, steps=4, loss=lambda output: output.sin().sum(), **options):
    mine, theirs = pair(model)
    optimizer = adaact.AdaAct(mine, **options)
    reference = Reference(theirs, **options)
    for _ in range(steps):
        x = make_input().double()
        for each, its_optimizer in ((mine, optimizer), (theirs, reference)):
            each.zero_grad()
            loss(each(x)).backward()
            its_optimizer.step()
    assert_same(mine, theirs)
    return optimizer


LAYERS = {
    "linear": (nn.Linear(5, 4), (7, 5)),
    "linear without bias": (nn.Linear(5, 4, bias=False), (7, 5)),
    "linear on sequences": (nn.Linear(5, 4), (3, 6, 5)),
    "convolution": (nn.Conv2d(3, 4, 3), (2, 3, 8, 7)),
    "stride": (nn.Conv2d(3, 4, 3, stride=2, padding=1), (2, 3, 8, 7)),
    "padding": (nn.Conv2d(3, 4, (3, 5), padding=(1, 2)), (2, 3, 8, 7)),
    "dilation": (nn.Conv2d(3, 4, 3, dilation=2, padding=2), (2, 3, 8, 7)),
    "groups": (nn.Conv2d(4, 6, 3, groups=2), (2, 4, 8, 7)),
    "depthwise": (nn.Conv2d(4, 4, 3, groups=4, padding=1), (2, 4, 8, 7)),
    "circular": (nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), (2, 3, 8, 7)),
    "reflected": (nn.Conv2d(3, 4, 3, padding=(2, 1), padding_mode="reflect"), (2, 3, 8, 7)),
    "same size": (nn.Conv2d(3, 4, (4, 3), padding="same", dilation=(1, 2)), (2, 3, 8, 7)),
    "same size, reflected": (nn.Conv2d(3, 4, (4, 3), padding="same", padding_mode="reflect"), (2, 3, 8, 7)),
    "valid positions": (nn.Conv2d(3, 4, 3, padding="valid", stride=2), (2, 3, 8, 7)),
    "one dimension": (nn.Conv1d(3, 4, 3, stride=2, padding=1), (2, 3, 9)),
    "three dimensions": (nn.Conv3d(2, 3, (2, 3, 3), stride=(1, 2, 1), padding=1), (2, 2, 4, 6, 5)),
    "three dimensions in groups": (nn.Conv3d(4, 6, 2, groups=2, dilation=2), (2, 4, 4, 5, 6)),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_every_kind_of_layer_follows_the_paper(kind):
    layer, shape = LAYERS[kind]
    train_both(copy.deepcopy(layer), lambda: torch.randn(shape))


@pytest.mark.parametrize("options", [
    {"lr": 0.05, "betas": (0.5, 0.9), "eps": 1e-3},
    {"power": 1.0, "weight_decay": 0.0},
])
def test_options_reach_the_step(options):
    train_both(nn.Linear(5, 4), lambda: torch.randn(7, 5), **options)


def small_net():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                         nn.Linear(4 * 36, 8), nn.ReLU(), nn.Linear(8, 3))


def gentle(output):
    """Gradients so small that a step does not make much of a rounding."""
    return output.sin().mean()


def test_a_network_with_normalisation_follows_the_paper():
    optimizer = train_both(small_net(), lambda: torch.randn(5, 3, 6, 6), loss=gentle)
    seen = {each["name"]: each["observed"] for each in optimizer.coverage()}
    assert seen == {"0.weight": True, "0.bias": True, "1.weight": False, "1.bias": False, "4.weight": True,
                    "4.bias": True, "6.weight": True, "6.bias": True}
    table = str(optimizer.coverage()).splitlines()
    assert table[0] == "0.weight  observed      weight of an observed layer"
    assert table[2] == "1.weight  not observed  parameter of a normalisation"


def test_channels_last_is_the_same_step():
    train_both(small_net().to(memory_format=torch.channels_last),
               lambda: torch.randn(5, 3, 6, 6).to(memory_format=torch.channels_last), loss=gentle)


class Attention(nn.Module):
    def __init__(self, kdim=None):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, kdim=kdim, vdim=kdim)

    def forward(self, query, key, value):
        return self.attention(query, key, value, need_weights=False)[0]


def attention_step(kdim, same):
    mine, theirs = pair(Attention(kdim))
    optimizer = adaact.AdaAct(mine)
    reference = Reference(theirs)
    mixed = []
    theirs.attention.out_proj.register_forward_pre_hook(lambda module, inputs: mixed.append(inputs[0]))
    query = torch.randn(2, 5, 8).double()
    key = query if same else torch.randn(2, 6, kdim or 8).double()
    value = key if same else torch.randn(2, 6, kdim or 8).double()
    for each in (mine, theirs):
        each(query, key, value).sin().sum().backward()
    optimizer.step()
    return mine, theirs, optimizer, query, key, value


@pytest.mark.parametrize("same", [True, False])
def test_packed_projections_of_attention_see_their_own_inputs(same):
    mine, _, optimizer, query, key, value = attention_step(None, same)
    found = optimizer.second_moment(mine.attention.in_proj_weight)
    expected = torch.stack([each.square().mean((0, 1)) for each in ((query,) if same else (query, key, value))])
    if not same and found.shape[0] == 3:
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    else:
        torch.testing.assert_close(found, expected[:1], rtol=1e-12, atol=1e-12)
    assert found.shape[0] == (1 if same else 3)


def test_separate_projections_of_attention_see_their_own_inputs():
    mine, _, optimizer, query, key, value = attention_step(6, False)
    for weight, seen in ((mine.attention.q_proj_weight, query), (mine.attention.k_proj_weight, key),
                         (mine.attention.v_proj_weight, value)):
        torch.testing.assert_close(optimizer.second_moment(weight)[0], seen.square().mean((0, 1)))
    assert optimizer.second_moment(mine.attention.out_proj.weight) is not None


def test_micro_batches_are_one_batch():
    whole, parts = pair(small_net()[4:])
    optimizer, of_parts = adaact.AdaAct(whole), adaact.AdaAct(parts)
    for _ in range(3):
        x = torch.randn(8, 4 * 36).double()
        whole.zero_grad()
        (whole(x).square().sum() / 8).backward()
        optimizer.step()
        parts.zero_grad()
        for part in x.split([3, 5]):
            (parts(part).square().sum() / 8).backward()
        of_parts.step()
    assert_same(whole, parts)


def test_a_weight_used_twice_counts_both_uses():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(self.layer(x).tanh())

    train_both(Twice(), lambda: torch.randn(6, 4))


def test_an_output_layer_tied_to_an_embedding_is_scaled_by_its_input():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(7, 4)
            self.head = nn.Linear(4, 7, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens):
            return self.head(self.embedding(tokens))

    mine, theirs = pair(Tied())
    optimizer, reference = adaact.AdaAct(mine), Reference(theirs)
    for _ in range(3):
        tokens = torch.randint(0, 7, (5,))
        for each, its in ((mine, optimizer), (theirs, reference)):
            each.zero_grad()
            F.cross_entropy(each(tokens), tokens.roll(1)).backward()
            its.step()
    assert_same(mine, theirs)
    assert len(optimizer.param_groups[0]["params"]) == 1


class LowRank(nn.Module):
    """A frozen layer and a trained correction of low rank."""

    def __init__(self):
        super().__init__()
        self.base, self.down, self.up = nn.Linear(6, 5), nn.Linear(6, 2, bias=False), nn.Linear(2, 5, bias=False)
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + 0.5 * self.up(self.down(x))


def test_corrections_of_low_rank_follow_the_paper_and_the_layer_below_stays():
    model = LowRank()
    before = copy.deepcopy(model.base).double()
    train_both(model, lambda: torch.randn(7, 6))
    assert_same(model.base, before, tolerance=0)


def test_frozen_layers_stay_as_they_are():
    model = small_net()[4:]
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    optimizer = train_both(model, lambda: torch.randn(5, 4 * 36))
    assert {each["name"]: each["reason"] for each in optimizer.coverage()}["4.weight"].startswith("frozen")
    torch.testing.assert_close(before.double(), model[0].weight)


def test_evaluation_leaves_no_trace():
    model = small_net()
    mine, theirs = pair(model)
    optimizer, reference = adaact.AdaAct(mine), Reference(theirs)
    for each, its in ((mine, optimizer), (theirs, reference)):
        torch.manual_seed(3)
        x = torch.randn(5, 3, 6, 6).double()
        each(x).sin().sum().backward()
        if each is mine:
            each.eval()
            each(100 * x)
            each.train()
            with torch.no_grad():
                each[4:](torch.full((2, 144), 50.0).double())
            with optimizer.pause_observation():
                each[4:](torch.full((2, 144), 50.0).double())
        its.step()
    assert_same(mine, theirs)


def test_one_layer_in_evaluation_mode_is_not_observed():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = adaact.AdaAct(model)
    model[0].eval()
    model(torch.randn(3, 4)).sum().backward()
    with pytest.warns(UserWarning, match="0.weight"):
        optimizer.step()
    assert [each["observed"] for each in optimizer.coverage()] == [False, False, True, True]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_what_checkpointing_recomputes_is_counted_once(use_reentrant):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 6)
            self.block = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))

        def forward(self, x):
            return checkpoint(self.block, self.first(x), use_reentrant=use_reentrant)

    mine, plain = pair(Checkpointed())
    plain.forward = lambda x: plain.block(plain.first(x))
    optimizer, of_plain = adaact.AdaAct(mine), adaact.AdaAct(plain)
    for _ in range(3):
        x = torch.randn(5, 4).double()
        for each, its in ((mine, optimizer), (plain, of_plain)):
            each.zero_grad()
            each(x).sin().sum().backward()
            its.step()
    assert_same(mine, plain)


def test_under_autocast_inputs_are_seen_as_the_layer_was_given_them():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Conv1d(3, 2, 3))
    optimizer = adaact.AdaAct(model)
    x = torch.randn(4, 3, 6)
    seen = {}
    for layer in (model[0], model[2]):
        layer.register_forward_pre_hook(lambda module, inputs: seen.update({module: inputs[0].detach()}))
    with torch.autocast("cpu", torch.bfloat16):
        model(x).float().sum().backward()
    optimizer.step()
    for layer in (model[0], model[2]):
        expected = rows_of(layer, seen[layer].float()).square().mean(1)
        torch.testing.assert_close(optimizer.second_moment(layer.weight), expected, rtol=2e-2, atol=1e-3)
        assert optimizer.state[layer.weight]["exp_avg"].dtype == torch.float32


def test_forward_passes_of_other_threads_count():
    whole, threaded = pair(nn.Linear(4, 3))
    optimizer, of_threads = adaact.AdaAct(whole), adaact.AdaAct(threaded)
    x = torch.randn(8, 4).double()
    whole(x).sin().sum().backward()
    losses = []
    threads = [threading.Thread(target=lambda part=part: losses.append(threaded(part).sin().sum()))
               for part in x.chunk(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sum(losses).backward()
    optimizer.step()
    of_threads.step()
    assert_same(whole, threaded)


def test_functional_calls_with_the_models_own_parameters_are_observed():
    model, other = pair(small_net()[4:])
    optimizer, of_other = adaact.AdaAct(model), adaact.AdaAct(other)
    x = torch.randn(5, 144).double()
    torch.func.functional_call(model, dict(model.named_parameters()), (x,)).sum().backward()
    other(x).sum().backward()
    optimizer.step()
    of_other.step()
    assert_same(model, other)


def test_second_moments_of_any_model():
    model = small_net()
    x = torch.randn(5, 3, 6, 6)
    with adaact.second_moment(model) as moments:
        model(x)
        with pytest.raises(RuntimeError, match="ended"):
            moments["0.weight"]
    torch.testing.assert_close(moments["0.weight"], rows_of(model[0], x).square().mean(1))
    assert list(moments) == ["0.weight", "4.weight", "6.weight"]
    with pytest.raises(KeyError, match="1.weight"):
        moments["1.weight"]
