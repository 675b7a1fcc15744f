"""What is wrong is told in Python's words, or does what docs/python.md says."""

import adaact
import numpy
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap


def net():
    return nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))


@pytest.mark.parametrize("options, error, words", [
    ({"lr": "0.1"}, TypeError, "lr is '0.1' of type str, expected a number ≥ 0"),
    ({"lr": True}, TypeError, "lr is True of type bool"),
    ({"lr": None}, TypeError, "lr is None"),
    ({"lr": -1}, ValueError, "lr is -1, expected a number ≥ 0"),
    ({"lr": float("nan")}, ValueError, "lr is nan"),
    ({"lr": float("-inf")}, ValueError, "lr is -inf"),
    ({"lr": float("inf")}, ValueError, "lr is inf"),
    ({"betas": 0.9}, TypeError, "betas is 0.9 of type float, expected 2 numbers"),
    ({"betas": (0.9,)}, ValueError, r"betas is \[0.9\], expected 2 numbers"),
    ({"betas": (0.9, 1.0)}, ValueError, r"betas\[1\] is 1, expected \[0, 1\)"),
    ({"betas": ("a", 1.0)}, TypeError, "betas is 'a'"),
    ({"covariance": "half"}, ValueError, "covariance is \"half\", expected one of: diagonal, full"),
    ({"covariance": 1}, TypeError, "covariance is 1 of type int"),
    ({"refresh_period": 2.5}, TypeError, "refresh_period is 2.5 of type float, expected an integer"),
    ({"momentum": 0.9}, TypeError, "AdaAct: there is no option 'momentum'; there are: betas"),
    ({"base": "adam"}, TypeError, "no option 'base'"),
])
def test_a_wrong_option_is_named(options, error, words):
    with pytest.raises(error, match=words):
        adaact.AdaAct(net(), **options)


def test_numbers_of_numpy_and_tensors_are_numbers():
    optimizer = adaact.AdaAct(net(), lr=numpy.float32(0.5), betas=torch.tensor([0.5, 0.75]))
    assert optimizer.param_groups[0]["lr"] == 0.5 and optimizer.param_groups[0]["betas"] == (0.5, 0.75)


def test_infinity_stands_where_an_option_takes_it():
    optimizer = adaact.Adan(net(), max_grad_norm=float("inf"))
    assert optimizer.param_groups[0]["max_grad_norm"] == float("inf")


@pytest.mark.parametrize("base", ["sam", "rmsprop"])
def test_sams_base_must_be_another_optimizer(base):
    with pytest.raises(ValueError, match=f"base is \"{base}\", expected one of: adaact"):
        adaact.Sam(net(), base=base)


@pytest.mark.parametrize("model", [3, torch.ones(2), [torch.ones(2)], None])
def test_a_model_is_a_module_or_named_parameters(model):
    with pytest.raises(TypeError, match="model is .*, expected a torch.nn.Module or its named parameters"):
        adaact.AdaAct(model)


def test_torchs_way_of_calling_is_an_error_that_says_how():
    with pytest.raises(TypeError, match="model is generator, expected a torch.nn.Module"):
        adaact.AdaAct(net().parameters(), lr=0.1)


def test_named_parameters_are_a_model():
    model = net()
    optimizer = adaact.AdaAct(model.named_parameters())
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    assert [each["observed"] for each in optimizer.coverage()] == [True] * 4


def test_a_model_without_parameters_is_an_error():
    with pytest.raises(ValueError, match="the model has no parameters"):
        adaact.AdaAct(nn.ReLU())


def test_a_model_on_meta_is_an_error():
    with pytest.raises(ValueError, match="'0.weight' is on meta, expected a device with memory"):
        adaact.AdaAct(net().to("meta"))


def test_a_lazy_module_is_an_error_until_it_has_a_shape():
    model = nn.Sequential(nn.LazyLinear(3))
    with pytest.raises(ValueError, match="'0.weight' has no shape yet"):
        adaact.AdaAct(model)
    model(torch.randn(2, 4))
    adaact.AdaAct(model)


def test_a_parameter_of_another_model_is_an_error():
    with pytest.raises(ValueError, match=r"a parameter of shape \[3, 4\] in a group is no parameter of the model"):
        adaact.AdaAct(net(), net().parameters())
    model = net()
    optimizer = adaact.AdaAct(model, model[0].parameters())
    with pytest.raises(ValueError, match="no parameter of the model"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2, 3))]})
    assert len(optimizer.param_groups) == 1
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()


def test_a_parameter_in_two_groups_is_an_error():
    model = net()
    with pytest.raises(ValueError, match="more than one parameter group"):
        adaact.AdaAct(model, [{"params": [model[0].weight]}, {"params": [model[0].weight]}])


def test_a_wrong_value_in_a_group_is_told_at_the_step_and_changes_nothing():
    model = net()
    optimizer = adaact.AdaAct(model)
    model(torch.randn(3, 4)).sum().backward()
    before = model[0].weight.clone()
    optimizer.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr is -1"):
        optimizer.step()
    optimizer.param_groups[0]["lr"] = "fast"
    with pytest.raises(TypeError, match="lr is 'fast'"):
        optimizer.step()
    assert torch.equal(before, model[0].weight)


def test_a_sparse_gradient_is_an_error_that_names_the_parameter():
    model = nn.Sequential(nn.Embedding(5, 4, sparse=True), nn.Linear(4, 2))
    optimizer = adaact.AdaAct(model)
    model(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(RuntimeError, match="the gradient of '0.weight' is Sparse, expected a dense one"):
        optimizer.step()


def test_sgd_takes_sparse_gradients_where_nothing_decays():
    model = nn.Sequential(nn.Embedding(5, 4, sparse=True))
    before = model[0].weight.detach().clone()
    for options, outcome in (({"weight_decay": 0.0}, None), ({}, "sparse")):
        optimizer = adaact.SGD(model, **options)
        optimizer.zero_grad()
        model(torch.tensor([1, 2])).sum().backward()
        if outcome is None:
            optimizer.step()
            continue
        with pytest.raises(RuntimeError, match=outcome):
            optimizer.step()
    torch.testing.assert_close(model[0].weight[[1, 2]], before[[1, 2]] - 0.1)
    assert torch.equal(model[0].weight[[0, 3, 4]], before[[0, 3, 4]])


def test_a_value_that_is_not_finite_throws_or_skips():
    model = net()
    optimizer = adaact.AdaAct(model)
    model(torch.full((2, 4), float("inf"))).sum().backward()
    with pytest.raises(adaact.NonFiniteError, match="is not finite; the step was rejected and nothing has changed"):
        optimizer.step()
    assert adaact.NonFiniteError.__module__ == "adaact"
    optimizer.param_groups[0]["non_finite_policy"] = "skip"
    model(torch.full((2, 4), float("inf"))).sum().backward()
    optimizer.step()
    assert (optimizer.steps, optimizer.skipped_steps) == (0, 1)


def test_a_parameter_of_no_layer_is_named_with_a_reason():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)
            self.scale = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return self.layer(x) * self.scale

    model = Scaled()
    optimizer = adaact.AdaAct(model)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    reasons = {each["name"]: (each["observed"], each["reason"]) for each in optimizer.coverage()}
    assert reasons["scale"] == (False, "not seen as a layer's weight or bias")


def test_a_layer_that_is_not_used_is_named():
    model = net()
    optimizer = adaact.AdaAct(model)
    model[0](torch.randn(3, 4)).sum().backward()
    with pytest.warns(UserWarning, match="saw no use of the layers with these weights: 1.weight") as caught:
        optimizer.step()
    assert caught[0].filename == __file__


def test_two_optimizers_of_one_model_each_observe_it():
    model = net().double()
    first = adaact.AdaAct(model, model[0].parameters())
    second = adaact.AdaAct(model, model[1].parameters())
    other = net().double()
    other.load_state_dict(model.state_dict())
    whole = adaact.AdaAct(other)
    for _ in range(2):
        x = torch.randn(3, 4).double()
        for each in (model, other):
            each.zero_grad()
            each(x).sin().sum().backward()
        first.step()
        second.step()
        whole.step()
    for mine, theirs in zip(model.parameters(), other.parameters()):
        assert torch.equal(mine, theirs)


def test_what_runs_in_a_transform_is_not_observed():
    model = net()
    optimizer = adaact.AdaAct(model)
    x = torch.randn(3, 4)
    vmap(model)(x)
    grad(lambda parameters: functional_call(model, parameters, (x,)).sum())(dict(model.named_parameters()))
    model(x).sum().backward()
    optimizer.step()
    torch.testing.assert_close(optimizer.second_moment(model[0].weight)[0], x.square().mean(0))


def test_a_layer_used_in_a_transform_alone_is_named():
    model = net()
    optimizer = adaact.AdaAct(model)
    vmap(model)(torch.randn(3, 4)).sum().backward()
    with pytest.warns(UserWarning, match="0.weight, 1.weight"):
        optimizer.step()


def test_a_state_of_another_optimizer_or_model_changes_nothing():
    model = net()
    optimizer = adaact.AdaAct(model)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    before = optimizer.state_dict()
    with pytest.raises(ValueError, match="the state is of adan, expected adaact"):
        optimizer.load_state_dict(adaact.Adan(net()).state_dict())
    bigger = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"groups have \[6\] parameters, expected \[4\]"):
        optimizer.load_state_dict(adaact.AdaAct(bigger).state_dict())
    broken = optimizer.state_dict()
    broken["state"][0]["exp_avg"] = torch.ones(7, 7)
    broken["param_groups"][0]["lr"] = 0.5
    with pytest.raises(RuntimeError, match="exp_avg"):
        optimizer.load_state_dict(broken)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert torch.equal(after["state"][0]["exp_avg"], before["state"][0]["exp_avg"])


def test_a_closure_that_throws_leaves_nothing_behind():
    model = net()
    optimizer = adaact.AdaAct(model)

    def closure():
        model(100 * torch.randn(3, 4))
        raise RuntimeError("no data")

    with pytest.raises(RuntimeError, match="no data"):
        optimizer.step(closure)
    x = torch.randn(3, 4)
    model(x).sum().backward()
    optimizer.step()
    torch.testing.assert_close(optimizer.second_moment(model[0].weight)[0], x.square().mean(0))


def test_a_training_flag_that_is_none_fails_the_step():
    model = net()
    optimizer = adaact.AdaAct(model)
    model[0].training = "yes"
    model(torch.randn(3, 4)).sum().backward()
    with pytest.raises(RuntimeError, match="cast"):
        optimizer.step()
    model[0].training = True
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()


def test_sam_needs_a_closure():
    with pytest.raises(TypeError, match="step\\(\\) was given no closure"):
        adaact.Sam(net()).step()


def test_no_process_group_is_an_error():
    with pytest.raises(RuntimeError, match="init_process_group"):
        adaact.AdaAct(net()).share_statistics()


def trained(model):
    optimizer = adaact.AdaAct(model)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("call, error, words", [
    (lambda: adaact.AdaAct(net(), 0.1), TypeError, "params is 0.1 of type float, expected .*such as lr=0.1"),
    (lambda: adaact.Sam(net(), base=3), TypeError, "base is 3 of type int"),
    (lambda: adaact.AdaAct(net(), lr=10**400), ValueError, "lr is an integer that no float64 holds, expected"),
    (lambda: adaact.AdaAct(net()).observe("x", torch.ones(2, 4)), TypeError, "for weight 'x' of type str"),
    (lambda: adaact.AdaAct(net()).observe(torch.ones(2, 4), None), TypeError, "for input None of type NoneType"),
    (lambda: adaact.AdaAct(net()).second_moment("x"), TypeError, "for weight 'x' of type str"),
    (lambda: adaact.AdaAct(net()).load_state_dict({}), ValueError, "the state has no entry 'state'"),
    (lambda: adaact.AdamW(net()).load_state_dict(torch.optim.AdamW(net().parameters()).state_dict()), ValueError,
     "no entry 'adaact', .*torch's own optimizers"),
    (lambda: adaact.Sam(net()).load_state_dict(adaact.Sam(net(), base="adaact").state_dict()), ValueError,
     "the state is of sam over adaact, expected sam over sgd"),
])
def test_a_wrong_argument_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_step_with_a_wrong_option_drops_its_batch():
    model = net()
    optimizer = adaact.AdaAct(model)
    model(100 * torch.randn(3, 4)).sum().backward()
    optimizer.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr is -1"):
        optimizer.step()
    optimizer.param_groups[0]["lr"] = 0.1
    x = torch.randn(3, 4)
    model(x).sum().backward()
    optimizer.step()
    torch.testing.assert_close(optimizer.second_moment(model[0].weight)[0], x.square().mean(0))


def test_a_class_of_ones_own_takes_the_state_of_the_one_that_it_derives_from():
    class Mine(adaact.AdaAct):
        pass

    saved = trained(net()).state_dict()
    mine = Mine(net())
    mine.load_state_dict(saved)
    assert mine.steps == 1
    adaact.AdaAct(net()).load_state_dict(mine.state_dict())


@pytest.mark.parametrize("change, words", [
    (lambda groups, extra: groups.pop(), "there are 1 groups in param_groups, expected 2"),
    (lambda groups, extra: groups.append({**groups[0], "params": [extra]}), "there are 3 groups"),
    (lambda groups, extra: groups[0]["params"].append(extra), r"param_groups\[0\] has other parameters"),
    (lambda groups, extra: groups[1]["params"].pop(), r"param_groups\[1\] has other parameters"),
    (lambda groups, extra: groups[0]["params"].__setitem__(0, extra), r"param_groups\[0\] has other parameters"),
    (lambda groups, extra: groups[0].pop("eps"), r"param_groups\[0\] has no 'eps'"),
])
def test_groups_that_are_changed_behind_its_back_are_an_error(change, words):
    model = net()
    optimizer = adaact.AdaAct(model, [{"params": model[0].parameters()}, {"params": model[1].parameters()}])
    model(torch.randn(3, 4)).sum().backward()
    before = model[0].weight.clone()
    change(optimizer.param_groups, nn.Parameter(torch.ones(3, 4)))
    with pytest.raises(ValueError, match=words):
        optimizer.step()
    assert torch.equal(before, model[0].weight)


def test_a_state_that_somebody_has_emptied_is_not_taken_over():
    saved = trained(net()).state_dict()
    saved["state"] = {}
    with pytest.raises(ValueError, match="entries of 0 parameters, expected 4"):
        adaact.AdaAct(net()).load_state_dict(saved)


@pytest.mark.filterwarnings("ignore:AdaAct")  # it takes steps of its own
def test_a_state_of_distributed_checkpoint_is_not_taken_over():
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

    model = net()
    saved = get_optimizer_state_dict(model, trained(model))
    other = net()
    with pytest.raises(ValueError, match="torch.distributed.checkpoint"):
        set_optimizer_state_dict(other, adaact.AdaAct(other), saved)


def test_parameters_that_fsdp_has_joined_are_an_error():
    model = net()
    model[0].weight._is_flat_param = True
    with pytest.raises(TypeError, match="many parameters in one row"):
        adaact.SGD(model)


def test_moments_of_a_compiled_model_are_warned_of():
    model = torch.compile(net(), backend="aot_eager")
    with pytest.warns(UserWarning, match="second_moment: nothing was observed"):
        with adaact.second_moment(model) as moments:
            model(torch.randn(3, 4))
    assert len(moments) == 0
