"""Models that torch.compile has made: the same steps as eager ones, in one graph that is compiled once."""

import copy
import pickle
import warnings

import adaact
import pytest
import torch
from test_eager import Attention, LowRank, assert_same, gentle, pair
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

torch._dynamo.config.cache_size_limit = 64  # whose name differs between releases; it is one in all of them


@pytest.fixture(autouse=True)
def _forget_graphs():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


class Net(nn.Module):
    """Convolutions of all kinds and linear layers."""

    def __init__(self):
        super().__init__()
        self.strided = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8, padding="same", dilation=2)
        self.circular = nn.Conv2d(8, 4, (3, 1), padding=(1, 0), padding_mode="circular")
        self.grouped = nn.Conv1d(4, 6, 3, groups=2, bias=False)
        self.head = nn.Linear(6 * 14, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.strided(x)))
        x = torch.relu(self.circular(torch.relu(self.depthwise(x))))
        return self.head(torch.tanh(self.grouped(x.flatten(2))).flatten(1))


def compare(model, make_input, backend="aot_eager", steps=4, tolerance=1e-11, make=adaact.AdaAct, **compile_options):
    """Trains the model and a copy of it that is compiled."""
    eager, compiled = pair(model)
    optimizers = make(eager), make(compiled)
    called = torch.compile(compiled, backend=backend, **compile_options)
    for step in range(steps):
        inputs = make_input(step)
        for each, its in ((eager, optimizers[0]), (called, optimizers[1])):

            def closure():
                its.zero_grad()
                loss = gentle(each(*inputs))
                loss.backward()
                return loss

            its.step(closure)
    assert_same(eager, compiled, tolerance)
    assert [each["observed"] for each in optimizers[0].coverage()] == [
        each["observed"] for each in optimizers[1].coverage()]
    return optimizers


EVERY_PADDING = {
    "three dimensions": (nn.Conv3d(2, 3, (2, 3, 3), stride=(1, 2, 1), padding=1), (2, 2, 4, 6, 5)),
    "reflected": (nn.Conv2d(3, 4, 3, padding=(2, 1), padding_mode="reflect"), (2, 3, 8, 7)),
    "same size, reflected": (nn.Conv2d(3, 4, (4, 3), padding="same", padding_mode="reflect"), (2, 3, 8, 7)),
    "valid positions": (nn.Conv2d(3, 4, 3, padding="valid", stride=2), (2, 3, 8, 7)),
}


@pytest.mark.parametrize("kind", EVERY_PADDING)
def test_convolutions_of_every_padding_take_the_same_steps(kind):
    layer, shape = EVERY_PADDING[kind]
    compare(nn.Sequential(copy.deepcopy(layer)), lambda step: (torch.randn(shape).double(),), fullgraph=True)


def edited(layer, **attributes):
    for name, value in attributes.items():
        setattr(layer, name, value)
    return layer


EDITED_AFTERWARDS = {
    "padding and dilation": (edited(nn.Conv2d(3, 4, 3, padding=1), dilation=(4, 4), padding=(4, 4)), (2, 3, 6, 6)),
    "same size, dilation": (edited(nn.Conv2d(3, 4, (4, 3), padding="same"), dilation=(3, 2)), (2, 3, 8, 7)),
    "one number for all": (edited(nn.Conv2d(3, 4, 3), padding=2, stride=2, dilation=(2,)), (2, 3, 8, 7)),
    "from same to valid": (edited(nn.Conv1d(3, 4, 3, padding="same"), padding="valid"), (2, 3, 9)),
    "reflected, where padding is not looked at": (
        edited(nn.Conv1d(3, 4, 3, padding=1, padding_mode="reflect"), padding=(2,), stride=(2,)), (2, 3, 9)),
}


@pytest.mark.parametrize("kind", EDITED_AFTERWARDS)
def test_convolutions_are_what_their_attributes_say_now(kind):
    layer, shape = EDITED_AFTERWARDS[kind]
    compare(nn.Sequential(copy.deepcopy(layer)), lambda step: (torch.randn(shape).double(),), fullgraph=True)


def test_corrections_of_low_rank_take_the_same_steps():
    compare(LowRank(), lambda step: (torch.randn(7, 6).double(),), fullgraph=True)


def images(step):
    return (torch.randn(5, 3, 8, 8).double(),)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_takes_the_same_steps_in_one_graph(backend):
    compare(Net(), images, backend, fullgraph=True)
    assert graphs() == 1


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_inductor_takes_the_same_steps(mode):
    model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    compare(model, images, "inductor", fullgraph=True, mode=mode)
    assert graphs() == 1


def test_batches_of_any_size_need_no_graph_of_their_own():
    sizes = [5, 3, 8, 6, 7]
    compare(Net(), lambda step: (torch.randn(sizes[step], 3, 8, 8).double(),), steps=5, fullgraph=True, dynamic=True)
    assert graphs() <= 2  # the first batch's size may count as a constant


OF_ANY_SIZE = {
    "Conv1d": (lambda: nn.Sequential(nn.Conv1d(3, 4, 3, padding=1)), lambda size: (2, 3, size)),
    "Conv2d": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.Conv2d(4, 2, 3, dilation=2)),
               lambda size: (2, 3, size, size + 3)),
}


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("kind", OF_ANY_SIZE)
def test_images_of_any_size_need_no_graph_of_their_own(kind, marked):
    make_model, shape = OF_ANY_SIZE[kind]
    sizes = (16, 20, 24, 31, 17, 40, 28, 36, 44, 48)

    def make_input(step):
        x = torch.randn(shape(sizes[step])).double()
        for dim in range(2, x.dim()) if marked else ():
            torch._dynamo.mark_dynamic(x, dim)
        return (x,)

    compare(make_model(), make_input, steps=len(sizes), fullgraph=True)
    assert graphs() <= (1 if marked else 2)  # the first size may count as a constant


def test_a_model_that_is_compiled_before_its_optimizer_is_made_is_noticed():
    eager, model = pair(Net())
    compiled = torch.compile(model, backend="aot_eager")
    optimizers = adaact.AdaAct(eager), adaact.AdaAct(compiled)
    x = images(0)[0]
    for each, its in ((eager, optimizers[0]), (compiled, optimizers[1])):
        gentle(each(x)).backward()
        its.step()
    assert_same(eager, model)


def test_a_model_may_compile_itself():
    eager, model = pair(Net())
    optimizers = adaact.AdaAct(eager), adaact.AdaAct(model)
    model.compile(backend="aot_eager")
    x = images(0)[0]
    for each, its in ((eager, optimizers[0]), (model, optimizers[1])):
        gentle(each(x)).backward()
        its.step()
    assert_same(eager, model)


def test_compiled_and_uncompiled_parts_are_each_seen_once():
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 2)

        def forward(self, x):
            x = self.first(x).tanh()
            torch._dynamo.graph_break()
            x = self.disabled(x).tanh()
            return self.third(x)

        @torch._dynamo.disable
        def disabled(self, x):
            return self.second(x)

    compare(Parts(), lambda step: (torch.randn(6, 4).double(),))


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("kdim", [None, 6])
def test_projections_of_attention_see_their_own_inputs(same, kdim):
    if same and kdim is not None:
        pytest.skip("one input cannot have two widths")
    eager, model = pair(Attention(kdim))
    optimizer, of_eager = adaact.AdaAct(model), adaact.AdaAct(eager)
    query = torch.randn(2, 5, 8).double()
    inputs = (query,) * 3 if same else (query, *torch.randn(2, 2, 6, kdim or 8).double().unbind())
    gentle(eager(*inputs)).backward()
    of_eager.step()
    gentle(torch.compile(model, backend="aot_eager")(*inputs)).backward()
    with pytest.warns(UserWarning, match="does not show what flows into attention.out_proj.weight"):
        optimizer.step()
    names = ["q_proj_weight", "k_proj_weight", "v_proj_weight"] if kdim else ["in_proj_weight"]
    for name in names:
        mine, theirs = getattr(model.attention, name), getattr(eager.attention, name)
        torch.testing.assert_close(optimizer.second_moment(mine), of_eager.second_moment(theirs))
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-11)


def test_micro_batches_evaluation_and_pauses():
    eager, model = pair(Net())
    optimizers = adaact.AdaAct(eager), adaact.AdaAct(model)
    compiled = torch.compile(model, backend="aot_eager")
    for _ in range(2):
        x = torch.randn(6, 3, 8, 8).double()
        for each, its in ((eager, optimizers[0]), (compiled, optimizers[1])):
            its.zero_grad()
            for part in x.chunk(2):
                gentle(each(part)).backward()
            with its.pause_observation():
                each(100 * x)
            with torch.no_grad():
                each(100 * x)
            each.eval()
            each(100 * x)
            each.train()
            its.step()
    assert_same(eager, model)


def test_sums_are_set_to_zero_together():
    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(function.__name__)
            return function(*args, **(kwargs or {}))

    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)))
    optimizer = adaact.AdaAct(model)
    torch.compile(model, backend="aot_eager")(torch.randn(3, 4)).sum().backward()
    names = []
    with Seen():
        optimizer.step()
    assert [name for name in names if "zero_" in name] == ["_foreach_zero_.default"] * 2


def test_a_discarded_batch_leaves_no_trace():
    model = nn.Linear(4, 2)
    optimizer = adaact.AdaAct(model)
    compiled = torch.compile(model, backend="aot_eager")
    compiled(100 * torch.randn(3, 4))
    optimizer.discard_observations()
    x = torch.randn(3, 4)
    compiled(x).sum().backward()
    optimizer.step()
    torch.testing.assert_close(optimizer.second_moment(model.weight)[0], x.square().mean(0))


def test_weights_used_twice_and_frozen_weights():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.frozen = nn.Linear(4, 4), nn.Linear(4, 4)
            self.frozen.weight.requires_grad_(False)

        def forward(self, x):
            return self.frozen(self.layer(self.layer(x).tanh()))

    compare(Twice(), lambda step: (torch.randn(6, 4).double(),), fullgraph=True)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_what_checkpointing_recomputes_is_counted_once(use_reentrant):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 6)
            self.block = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))

        def forward(self, x):
            return checkpoint(self.block, self.first(x), use_reentrant=use_reentrant)

    compare(Checkpointed(), lambda step: (torch.randn(5, 4).double(),))


def test_under_autocast_inputs_are_seen_as_the_layer_was_given_them():
    eager = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    model = copy.deepcopy(eager)
    optimizers = adaact.AdaAct(eager), adaact.AdaAct(model)
    x = torch.randn(4, 6)
    for each, its in ((eager, optimizers[0]), (torch.compile(model, backend="aot_eager"), optimizers[1])):
        with torch.autocast("cpu", torch.bfloat16):
            each(x).float().sum().backward()
        its.step()
    for mine, theirs in ((model[0], eager[0]), (model[2], eager[2])):
        torch.testing.assert_close(optimizers[1].second_moment(mine.weight), optimizers[0].second_moment(theirs.weight))


def test_sams_second_pass_is_not_observed():
    compare(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), lambda step: (torch.randn(6, 4).double(),),
            make=lambda model: adaact.Sam(model, base="adaact"))


def test_a_pass_of_sams_that_throws_leaves_no_trace():
    model = nn.Linear(4, 2)
    optimizer = adaact.Sam(model, base="adaact")
    compiled = torch.compile(model, backend="aot_eager")
    x = torch.randn(3, 4)

    def closure(scale, throws):
        optimizer.zero_grad()
        loss = compiled(scale * x).sum()
        loss.backward()
        if throws:
            raise RuntimeError("no more data")
        return loss

    with pytest.raises(RuntimeError, match="no more data"):
        optimizer.step(lambda: closure(100, throws=True))
    optimizer.step(lambda: closure(1, throws=False))
    torch.testing.assert_close(optimizer.second_moment(model.weight)[0], x.square().mean(0))


def test_a_functional_call_with_other_weights_does_not_count():
    if not torch._dynamo.config.inline_inbuilt_nn_modules:
        pytest.skip("this torch does not tell a module's parameters apart")
    model = nn.Sequential(nn.Linear(4, 3))
    optimizer = adaact.AdaAct(model)
    fast = {name: (2 * value).detach().requires_grad_() for name, value in model.named_parameters()}

    def adapted_loss(x):
        return functional_call(model, fast, (100 * x,)).sum()

    x = torch.randn(5, 4)
    torch.compile(adapted_loss, backend="aot_eager", fullgraph=True)(x).backward()
    torch.compile(model, backend="aot_eager", fullgraph=True)(x).sum().backward()
    optimizer.step()
    torch.testing.assert_close(optimizer.second_moment(model[0].weight)[0], x.square().mean(0))


def test_a_functional_call_with_the_models_own_weights_counts():
    model = nn.Sequential(nn.Linear(4, 3))
    optimizer = adaact.AdaAct(model)

    def loss(x):
        return functional_call(model, dict(model.named_parameters()), (x,)).sum()

    x = torch.randn(5, 4)
    torch.compile(loss, backend="aot_eager", fullgraph=True)(x).backward()
    optimizer.step()
    torch.testing.assert_close(optimizer.second_moment(model[0].weight)[0], x.square().mean(0))


def times_ten(module, inputs):
    return (10 * inputs[0],)


def test_what_an_earlier_hook_makes_of_an_input_is_seen():
    model = nn.Sequential(nn.Linear(4, 3))
    model[0].register_forward_pre_hook(times_ten)
    optimizer = adaact.AdaAct(model)
    x = torch.randn(5, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.compile(model, backend="aot_eager")(x).sum().backward()
        optimizer.step()
    torch.testing.assert_close(optimizer.second_moment(model[0].weight)[0], (10 * x).square().mean(0))


@pytest.mark.parametrize("is_compiled_before", [True, False])
def test_a_hook_that_was_registered_later_is_warned_of_once(is_compiled_before):
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(3, 2))
    optimizers = [adaact.AdaAct(model, model[0].parameters()), adaact.AdaAct(model, model[1].parameters())]
    of_all = adaact.AdaAct(model)  # whose hooks are later ones too
    compiled = torch.compile(model, backend="aot_eager")
    if is_compiled_before:
        compiled(torch.randn(5, 4))
    model[0].register_forward_pre_hook(times_ten)
    told = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled(torch.randn(5, 4)).sum().backward()
            for each in (*optimizers, of_all):
                each.step()
        told += [str(each.message) for each in caught]
    assert len(told) == 2 and all("registered after the optimizer was made: 0.weight." in each for each in told)


def layers_with_hooks(model):
    return [name for name, module in model.named_modules() if module._forward_pre_hooks]


def test_hooks_are_on_the_layers_of_the_optimizers_own_parameters():
    model = nn.Sequential(nn.Linear(4, 4), nn.Conv1d(4, 4, 1), nn.MultiheadAttention(4, 2))
    optimizer = adaact.AdaAct(model, model[0].parameters())
    assert layers_with_hooks(model) == ["0"]
    optimizer.add_param_group({"params": [model[1].bias, model[2].in_proj_bias], "lr": 0.5})
    optimizer.add_param_group({"params": model[1].weight, "covariance": "full"})
    optimizer.add_param_group({"params": model[2].in_proj_weight})
    assert layers_with_hooks(model) == ["0", "2"]
    optimizer.remove_hooks()
    optimizer.add_param_group({"params": model[2].out_proj.weight})
    assert layers_with_hooks(model) == []


def test_hooks_are_there_where_sums_are_taken():
    model = nn.Sequential(nn.Linear(4, 2))
    optimizer = adaact.AdaAct(model, covariance="full")
    assert layers_with_hooks(model) == []
    optimizer.param_groups[0]["covariance"] = "diagonal"
    optimizer.step()
    assert layers_with_hooks(model) == ["0"]
    other = nn.Sequential(nn.Linear(4, 2))
    loaded = adaact.AdaAct(other, covariance="full")
    loaded.load_state_dict(optimizer.state_dict())
    assert layers_with_hooks(other) == ["0"]


def test_a_bias_whose_weight_is_not_the_optimizers_is_observed_in_eager_code_alone():
    observed = []
    for is_compiled in (False, True):
        model = nn.Sequential(nn.Linear(4, 2))
        optimizer = adaact.AdaAct(model, [model[0].bias])
        (torch.compile(model, backend="aot_eager") if is_compiled else model)(torch.randn(3, 4)).sum().backward()
        optimizer.step()
        observed.append(optimizer.coverage()[1]["observed"])
    assert observed == [True, False]


def test_a_layer_of_a_group_that_was_added_is_seen():
    eager, model = pair(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)))
    optimizers = [adaact.AdaAct(each, each[0].parameters()) for each in (eager, model)]
    compiled = torch.compile(model, backend="aot_eager")
    for step in range(3):
        x = torch.randn(6, 4).double()
        for each, its in ((eager, optimizers[0]), (compiled, optimizers[1])):
            its.zero_grad()
            gentle(each(x)).backward()
            its.step()
        if step == 0:
            for each, its in zip((eager, model), optimizers):
                its.add_param_group({"params": each[2].parameters()})
    assert_same(eager, model)


def test_a_layer_that_no_hook_sees_is_named():
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen, self.unseen = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            return F.linear(self.seen(x), self.unseen.weight, self.unseen.bias)

    model = Functional()
    optimizer = adaact.AdaAct(model)
    torch.compile(model, backend="aot_eager")(torch.randn(3, 4)).sum().backward()
    with pytest.warns(UserWarning, match="saw no use of the layers with these weights: unseen.weight"):
        optimizer.step()


@pytest.mark.parametrize("make, rule", [
    (adaact.Foof, "momentum SGD"), (adaact.Kfac, "momentum SGD"),
    (lambda model: adaact.AdaAct(model, covariance="full"), "unobserved_rule")])
def test_optimizers_that_need_covariances_name_the_layers_that_they_do_not_see(make, rule):
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer = make(model)
    torch.compile(model, backend="aot_eager")(torch.randn(3, 4)).sum().backward()
    with pytest.warns(UserWarning, match=f"0.weight, 1.weight.* they are trained by {rule};"):
        optimizer.step()


def test_an_optimizer_may_be_made_after_the_first_call():
    model = nn.Linear(4, 2)
    compiled = torch.compile(model, backend="aot_eager")
    compiled(torch.randn(3, 4))
    for make in (adaact.AdaAct, adaact.Sam, lambda model: adaact.Sam(model, base="adaact"), adaact.AdaAct):
        optimizer = make(model)

        def closure():
            loss = compiled(torch.randn(3, 4)).sum()
            loss.backward()
            return loss

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer.step(closure)
    assert optimizer.coverage()[0]["observed"]


def test_graphs_of_other_models_of_the_same_class_are_not_this_ones():
    def train(model, optimizer):
        compiled = torch.compile(model, backend="aot_eager")
        for _ in range(2):
            compiled(torch.randn(3, 4)).sum().backward()
            optimizer.step()

    def net():
        return nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))

    other, model = net(), net()
    train(other, torch.optim.SGD(other.parameters(), 0.1))  # whose graph has no hooks
    optimizer = adaact.AdaAct(model)
    train(model, optimizer)
    other = net()
    train(other, torch.optim.SGD(other.parameters(), 0.1))
    train(model, optimizer)
    assert optimizer.state[model[0].weight]["segments"][0, 2].item() == 4  # observations


def test_equal_blocks_share_a_graph_but_not_their_sums():
    class Blocks(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(12))

        def forward(self, x):
            for block in self.blocks:
                x = 2 * block(x)
            return x

    eager, model = pair(Blocks())
    optimizers = adaact.AdaAct(eager), adaact.AdaAct(model)
    for block in model.blocks:
        block.compile(backend="aot_eager")
    for _ in range(2):
        x = torch.randn(5, 4).double()
        for each, its in ((eager, optimizers[0]), (model, optimizers[1])):
            its.zero_grad()
            gentle(each(x)).backward()
            its.step()
    assert_same(eager, model)
    if torch._dynamo.config.inline_inbuilt_nn_modules:  # torch 2.4 makes a graph of each module
        assert graphs() < 12


def test_copies_of_the_model_are_copies_without_an_optimizer():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer = adaact.AdaAct(model)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.compile(other, backend="aot_eager")(100 * torch.randn(3, 4)).sum().backward()
    x = torch.randn(3, 4)
    torch.compile(model, backend="aot_eager")(x).sum().backward()
    optimizer.step()
    torch.testing.assert_close(optimizer.second_moment(model[0].weight)[0], x.square().mean(0))


def test_hooks_go_with_the_optimizer_or_when_they_are_taken_off():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer = adaact.AdaAct(model)
    assert model[0]._forward_pre_hooks
    optimizer.remove_hooks()
    torch.jit.script(model)(torch.randn(3, 4))
    assert not model[0]._forward_pre_hooks
    optimizer = adaact.AdaAct(model)
    del optimizer
    assert not model[0]._forward_pre_hooks


def test_a_compiled_step_is_an_ordinary_step():
    eager, model = pair(nn.Linear(4, 2))
    optimizers = adaact.AdaAct(eager), adaact.AdaAct(model)
    x = torch.randn(3, 4).double()

    def train(each, its):
        its.zero_grad()
        gentle(each(x)).backward()
        its.step()

    train(eager, optimizers[0])
    torch.compile(train, backend="aot_eager")(model, optimizers[1])
    assert_same(eager, model)
