"""What people do with a torch.optim.Optimizer."""

import copy
import io
import pickle

import adaact
import pytest
import torch
from torch import nn

NAMES = ["AdaAct", "Adam", "AdamW", "Adan", "Foof", "Kfac", "Lamb", "SGD", "Sam"]


def make(name, model, params=None, **options):
    return getattr(adaact, name)(model, params, **options)


def net():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def train(model, optimizer, steps=3, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        x = torch.randn(5, 4, generator=generator)

        def closure():
            optimizer.zero_grad()
            loss = model(x).sin().mean()
            loss.backward()
            return loss

        loss = optimizer.step(closure)
    return loss


def same(model, other):
    return all(torch.equal(mine, theirs) for mine, theirs in zip(model.parameters(), other.parameters()))


@pytest.mark.parametrize("name", NAMES)
def test_is_one_of_torchs(name):
    model = net()
    optimizer = make(name, model)
    assert isinstance(optimizer, torch.optim.Optimizer)
    before = copy.deepcopy(model)
    loss = train(model, optimizer, steps=1)
    assert loss.requires_grad and not same(model, before)
    assert optimizer.steps == 1 and optimizer.skipped_steps == 0
    assert name in repr(optimizer)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_torchs_own_take_torchs_steps(name):
    mine = net().double()
    theirs = copy.deepcopy(mine)
    options = {"momentum": 0.9, "nesterov": True} if name == "SGD" else {"amsgrad": True}
    optimizer = make(name, mine, lr=0.05, weight_decay=0.01, **options)
    of_torch = getattr(torch.optim, name)(theirs.parameters(), lr=0.05, weight_decay=0.01, **options)
    for _ in range(5):
        x = torch.randn(5, 4).double()
        for model, each in ((mine, optimizer), (theirs, of_torch)):
            each.zero_grad()
            model(x).sin().mean().backward()
            each.step()
    for a, b in zip(mine.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_options_of_groups_are_seen_and_can_be_changed(name):
    model = net()
    optimizer = make(name, model, [{"params": model[0].parameters()},
                                   {"params": model[2].parameters(), "lr": 0.0, "weight_decay": 0.0}], lr=0.01)
    assert [group["lr"] for group in optimizer.param_groups] == [0.01, 0.0]
    before = copy.deepcopy(model)
    train(model, optimizer)
    assert same(model[2], before[2]) and not same(model[0], before[0])
    optimizer.param_groups[0]["lr"] = 0.0
    optimizer.param_groups[0]["weight_decay"] = 0.0
    optimizer.param_groups[1]["lr"] = torch.tensor(0.02)
    before = copy.deepcopy(model)
    train(model, optimizer)
    assert same(model[0], before[0]) and not same(model[2], before[2])


@pytest.mark.parametrize("is_given", [True, False])
def test_a_learning_rate_that_is_a_tensor_may_be_changed_in_place(is_given):
    model = net()
    rate = torch.tensor(0.1)
    optimizer = adaact.AdaAct(model, lr=rate if is_given else 0.1, weight_decay=0.0)
    if not is_given:
        optimizer.param_groups[0]["lr"] = rate
    train(model, optimizer)
    rate.zero_()
    before = copy.deepcopy(model)
    train(model, optimizer)
    assert same(model, before)


def test_a_learning_rate_that_is_a_tensor_stays_the_tensor(tmp_path):
    model = net()
    rate = torch.tensor(0.25)
    optimizer = adaact.AdaAct(model, model[0].parameters(), lr=rate)
    optimizer.add_param_group({"params": model[2].parameters()})
    assert all(group["lr"] is rate for group in optimizer.param_groups)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    train(model, optimizer, 1)
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.125
    optimizer.save(tmp_path / "state.safetensors")
    saved = optimizer.state_dict()
    rate.fill_(1.0)
    optimizer.load(tmp_path / "state.safetensors")
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.125
    rate.fill_(1.0)
    optimizer.load_state_dict({**saved, "param_groups": [{**group, "lr": torch.tensor(0.5)}
                                                         for group in saved["param_groups"]]})
    assert isinstance(optimizer.param_groups[0]["lr"], torch.Tensor)  # the loaded one, as with torch's optimizers
    assert optimizer.param_groups[0]["lr"].item() == 0.5


def test_a_change_in_one_group_stays_where_another_is_added():
    model = net()
    optimizer = adaact.AdaAct(model, model[0].parameters())
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.add_param_group({"params": model[2].parameters()})
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("make_scheduler", [
    lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
    lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3),
    lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
    lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=5, cycle_momentum=False),
])
def test_schedulers_decide_the_learning_rate(make_scheduler):
    scheduled = net()
    by_hand = copy.deepcopy(scheduled)
    optimizer, other = adaact.AdaAct(scheduled), adaact.AdaAct(by_hand)
    scheduler = make_scheduler(optimizer)
    for step in range(3):
        other.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"]
        train(scheduled, optimizer, 1, seed=step)
        train(by_hand, other, 1, seed=step)
        scheduler.step()
    assert same(scheduled, by_hand)
    assert optimizer.param_groups[0]["lr"] != 0.1


@pytest.mark.parametrize("name", NAMES)
def test_groups_can_be_added(name):
    model = net()
    optimizer = make(name, model, list(model[0].parameters()))
    before = copy.deepcopy(model)
    train(model, optimizer, 1)
    assert same(model[2], before[2])
    optimizer.add_param_group({"params": list(model[2].parameters()), "lr": 0.05})
    assert optimizer.param_groups[1]["lr"] == 0.05
    assert optimizer.param_groups[1].keys() == optimizer.param_groups[0].keys()
    train(model, optimizer, 1)
    assert not same(model[2], before[2])


def test_gradients_are_set_to_none_or_to_zero():
    model = net()
    optimizer = adaact.AdaAct(model)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert all(torch.count_nonzero(p.grad) == 0 for p in model.parameters())
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_hooks_are_called_around_a_step():
    model = net()
    optimizer = adaact.AdaAct(model)
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.register_state_dict_post_hook(lambda *_: calls.append("saved"))
    optimizer.register_load_state_dict_pre_hook(lambda *_: calls.append("loading"))
    optimizer.register_load_state_dict_post_hook(lambda *_: calls.append("loaded"))
    train(model, optimizer, 1)
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["before", "after", "saved", "loading", "loaded"]


@pytest.mark.parametrize("name", NAMES)
def test_a_state_goes_through_torch_save_and_goes_on_to_the_bit(name):
    model = net()
    optimizer = make(name, model, lr=0.02)
    train(model, optimizer)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = net()
    resumed.load_state_dict(saved["model"])
    other = make(name, resumed)
    other.load_state_dict(saved["optimizer"])
    assert other.param_groups[0]["lr"] == 0.02 and other.steps == 3
    train(model, optimizer, 2, seed=7)
    train(resumed, other, 2, seed=7)
    assert same(model, resumed)


def entries_of(optimizer):
    return {parameter: dict(entries) for parameter, entries in optimizer.state.items()}


def equal_entries(mine, theirs):
    return mine.keys() == theirs.keys() and all(
        mine[parameter].keys() == theirs[parameter].keys()
        and all(torch.equal(value, theirs[parameter][entry]) for entry, value in mine[parameter].items())
        for parameter in mine)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_assigned_in_the_state_is_the_state(name):
    model = net()
    optimizer = make(name, model)
    train(model, optimizer, 2)
    before = entries_of(optimizer)
    train(model, optimizer, 1)
    after = entries_of(optimizer)
    optimizer.state = before
    assert equal_entries(entries_of(optimizer), before)
    for parameter in before:
        optimizer.state[parameter] = after[parameter]
    assert equal_entries(entries_of(optimizer), after)
    optimizer.state.update(before)
    assert equal_entries(entries_of(optimizer), before)
    assert optimizer.state.pop(torch.ones(2), None) is None
    parameter = next(iter(before))
    assert optimizer.state.pop(parameter).keys() == before[parameter].keys() and parameter not in optimizer.state
    with pytest.raises(KeyError):
        optimizer.state.pop(parameter)
    optimizer.state.clear()
    assert len(optimizer.state) == 0
    train(model, optimizer, 1)
    assert optimizer.state.keys() == before.keys()


def test_before_the_first_step_a_parameter_has_an_empty_state():
    model = net()
    optimizer = adaact.AdaAct(model)
    weight = model[0].weight
    assert optimizer.state[weight] == {} and weight not in optimizer.state and len(optimizer.state) == 0
    assert optimizer.state.get(weight) is None and optimizer.state.pop(weight, None) is None
    for change in (optimizer.state.pop, optimizer.state.__delitem__, lambda key: optimizer.state[key]["exp_avg"]):
        with pytest.raises(KeyError):
            change(weight)
    with pytest.raises(KeyError):
        optimizer.state[torch.ones(2)]
    other = copy.deepcopy(model)
    of_other = adaact.AdaAct(other)
    train(other, of_other, 1)
    entries = dict(of_other.state[other[0].weight])
    assert optimizer.state.setdefault(weight, entries).keys() == entries.keys()
    assert torch.equal(optimizer.state[weight]["exp_avg"], entries["exp_avg"])
    assert optimizer.state.setdefault(weight, {}).keys() == entries.keys()


def test_an_entry_of_the_state_can_be_assigned():
    model = net()
    optimizer = adaact.AdaAct(model)
    train(model, optimizer, 1)
    entries = optimizer.state[model[0].weight]
    entries["exp_avg"] = torch.full((6, 4), 3.0)
    assert torch.equal(optimizer.state[model[0].weight]["exp_avg"], torch.full((6, 4), 3.0))
    train(model, optimizer, 1)
    moved = optimizer.state[model[2].weight]["exp_avg"]
    entries["exp_avg"] = torch.zeros(6, 4)  # read before the step: the other entries are the step's
    assert torch.equal(optimizer.state[model[2].weight]["exp_avg"], moved)
    assert optimizer.state[model[0].weight]["step"].item() == 2


def test_a_state_that_does_not_fit_is_an_error_and_changes_nothing():
    model = net()
    optimizer = adaact.AdaAct(model)
    train(model, optimizer, 1)
    before = entries_of(optimizer)
    with pytest.raises(RuntimeError, match="'exp_avg' of '0.weight' is Float of shape \\[7\\]"):
        optimizer.state[model[0].weight]["exp_avg"] = torch.ones(7)
    with pytest.raises(KeyError, match="no parameter of this optimizer"):
        optimizer.state[torch.ones(2)] = {"exp_avg": torch.ones(2)}
    with pytest.raises(RuntimeError, match="lacks"):
        del optimizer.state[model[0].weight]["second_moment"]
    assert equal_entries(entries_of(optimizer), before)


def test_a_copy_of_the_state_is_nobodys():
    model = net()
    optimizer = adaact.AdaAct(model)
    train(model, optimizer, 1)
    before = entries_of(optimizer)
    optimizer.register_state_dict_post_hook(lambda _, found: found["state"][0].update(exp_avg=torch.zeros(6, 4)))
    assert not optimizer.state_dict()["state"][0]["exp_avg"].any()
    for other in (copy.deepcopy(optimizer.state), pickle.loads(pickle.dumps(optimizer.state)), optimizer.state.copy()):
        other.clear()
    assert equal_entries(entries_of(optimizer), before)


def test_state_of_bfloat16_weights_keeps_its_float32():
    model = net().bfloat16()
    optimizer = adaact.AdaAct(model)
    model(torch.randn(5, 4).bfloat16()).sum().backward()
    optimizer.step()
    state = {key: dict(entries) for key, entries in optimizer.state_dict()["state"].items()}
    other = adaact.AdaAct(model)
    other.load_state_dict(optimizer.state_dict())
    for key, entries in other.state_dict()["state"].items():
        for entry, value in entries.items():
            assert value.dtype == state[key][entry].dtype and torch.equal(value, state[key][entry])
    assert state[0]["second_moment"].dtype == torch.float32


@pytest.mark.parametrize("copied", [lambda pair: pickle.loads(pickle.dumps(pair)), copy.deepcopy])
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_of_model_and_optimizer_goes_on_like_the_two(name, copied):
    model = net()
    optimizer = make(name, model, lr=0.02)
    train(model, optimizer)
    other_model, other = copied((model, optimizer))
    assert other.param_groups[0]["params"][0] is other_model[0].weight
    train(model, optimizer, 2, seed=7)
    train(other_model, other, 2, seed=7)
    assert same(model, other_model)
    assert other.steps == 5


def test_a_copy_observes_nothing_of_the_model():
    model = net()
    optimizer = adaact.AdaAct(model)
    train(model, optimizer, 1)
    other = copy.deepcopy(optimizer)
    train(model, optimizer, 1)
    torch.testing.assert_close(other.state_dict()["state"][0]["segments"][0, 2].item(), 1)
    with pytest.raises(ValueError, match="none of its parameters"):
        other.second_moment(model[0].weight)


class Scaler(torch.amp.GradScaler):
    def __init__(self, scale):
        super().__init__("cpu", init_scale=scale, growth_interval=1000)


def test_a_grad_scaler_scales_and_a_skipped_step_drops_what_was_observed():
    model = net().double()
    plain = copy.deepcopy(model)
    optimizer, of_plain = adaact.AdaAct(model), adaact.AdaAct(plain)
    scaler = Scaler(1024.0)
    generator = torch.Generator().manual_seed(1)
    for step in range(4):
        x = torch.randn(5, 4, generator=generator).double()
        bad = step == 1
        optimizer.zero_grad()
        loss = model(100 * x if bad else x).sin().mean()
        scaler.scale(loss * float("inf") if bad else loss).backward()
        if step == 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        if bad:
            assert scaler.get_scale() == 512.0
            continue
        of_plain.zero_grad()
        plain(x).sin().mean().backward()
        of_plain.step()
    assert optimizer.steps == 3
    for mine, theirs in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [1024.0, 1000.0])
def test_a_scaled_step_that_raises_leaves_the_gradients_and_nothing_for_the_next(scale):
    model = net().double()
    plain = copy.deepcopy(model)
    optimizer, of_plain = adaact.AdaAct(model), adaact.AdaAct(plain)
    scaler = Scaler(scale)
    optimizer.observe(model[0].weight, torch.full((5, 4), float("inf")).double())
    x = torch.randn(5, 4).double()
    scaler.scale(model(x).sin().mean()).backward()
    before = [parameter.grad.clone() for parameter in model.parameters()]
    with pytest.raises(adaact.NonFiniteError):
        scaler.step(optimizer)
    assert not hasattr(optimizer, "grad_scale") and not hasattr(optimizer, "found_inf")
    for parameter, gradient in zip(model.parameters(), before):
        torch.testing.assert_close(parameter.grad, gradient, rtol=0 if scale == 1024.0 else 1e-15, atol=0)
    scaler.update()
    for is_scaled in (True, False):
        optimizer.zero_grad()
        loss = model(x).sin().mean()
        (scaler.scale(loss) if is_scaled else loss).backward()
        scaler.step(optimizer) if is_scaled else optimizer.step()
        of_plain.zero_grad()
        plain(x).sin().mean().backward()
        of_plain.step()
    for mine, theirs in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_batch_that_the_loop_drops_is_discarded_with_its_observations(is_compiled):
    model = net().double()
    plain = copy.deepcopy(model)
    optimizer, of_plain = adaact.AdaAct(model), adaact.AdaAct(plain)
    called = torch.compile(model, backend="aot_eager") if is_compiled else model

    def train_on(x, discards=True):
        optimizer.zero_grad()
        loss = called(x).sin().mean()
        if not loss.isfinite():
            if discards:
                optimizer.discard_observations()
            return
        loss.backward()
        optimizer.step()

    for step in range(4):
        x = torch.randn(5, 4).double()
        if step == 2:
            train_on(torch.full_like(x, float("nan")))
        train_on(x)
        of_plain.zero_grad()
        plain(x).sin().mean().backward()
        of_plain.step()
    assert optimizer.steps == 4
    for mine, theirs in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    train_on(torch.full_like(x, float("nan")), discards=False)
    with pytest.raises(adaact.NonFiniteError):
        train_on(x)


def test_a_wrapper_may_stand_between():
    class Wrapper(torch.optim.Optimizer):  # as accelerate has it
        def __init__(self, optimizer):
            self.optimizer = optimizer

        param_groups = property(lambda self: self.optimizer.param_groups)
        state = property(lambda self: self.optimizer.state)
        defaults = property(lambda self: self.optimizer.defaults)

        def step(self, closure=None):
            return self.optimizer.step(closure)

        def zero_grad(self, set_to_none=True):
            self.optimizer.zero_grad(set_to_none)

    model = net()
    wrapper = Wrapper(adaact.AdaAct(model))
    scheduler = torch.optim.lr_scheduler.StepLR(wrapper, 1)
    before = copy.deepcopy(model)
    train(model, wrapper, 1)
    scheduler.step()
    assert not same(model, before)
    assert wrapper.optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


def test_the_signature_tells_options_and_defaults_of_the_registry():
    import inspect
    import json

    for name in NAMES:
        parameters = inspect.signature(getattr(adaact, name)).parameters
        defaults = json.loads(adaact._core.default_options(name.lower()))
        for option, value in defaults.items():
            default = parameters[option].default
            assert option in getattr(adaact, name).__doc__
            if isinstance(value, list):
                value = tuple(float("inf") if each is None else each for each in value)
            assert default == (float("inf") if value is None else value), (name, option)
