"""portico.optim against 50 steps of torch.optim (make_goldens.py), as in PyTorch, compiled, and with gradients of one's
own."""
import gc
import math
import os

import numpy as np
import pytest

import nn_cases
import portico as p
from bounds import held, resident
from portico import nn, optim
from portico.nn import functional as F
from portico.optim import lr_scheduler

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
MASK = np.triu(np.ones((8, 8), bool), 1)


@pytest.fixture(scope="module")
def goldens():
    with np.load(os.path.join(GOLDEN, "training.npz")) as f:
        return dict(f)


def loss_of(model, x, y):
    h = model[1](model[0](x), mask=MASK)
    return F.cross_entropy(p.reshape(model[2](h), (-1, 11)), p.reshape(p.asarray(y), (-1,)))


def make_step(model, optimizer, clip, way):
    def as_in_pytorch(x, y):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss

    def functional(x, y):
        loss, gradients = p.value_and_grad(loss_of)(model, x, y)
        optimizer.step(gradients)
        return loss

    if way == "functional":
        return p.function(functional)
    return p.function(as_in_pytorch) if way == "compiled" else as_in_pytorch


@pytest.mark.parametrize("way", ["compiled", "as in PyTorch", "functional"])
@pytest.mark.parametrize("name", nn_cases.TRAINERS)
def test_losses_beside_pytorch(goldens, name, way):
    """PyTorch's own float32 run leaves its float64 run by what rounding does to this trajectory: d, the most over all
    steps. Another float32 run differs from it in the order of sums of at most n = 128 terms (loss and gradients of 64
    rows, products of 32): as many roundings of the same size, so at most 2 d from float64 if they are as large, and each
    loss, computed from some 10 numbers of the size of the first one, is rounded by 10 u of that. A factor of 4 leaves room
    for an unlucky d, which is the largest of 50 and not their bound."""
    make, schedule, clip = nn_cases.TRAINERS[name]
    if way == "functional" and clip:
        pytest.skip("clips by optimiser")
    model = nn_cases.train_model(nn)
    shapes = {n: x.shape for n, x in model.state_dict().items()}
    model.load_state_dict(nn_cases.weights_of(shapes, nn_cases.Numbers(7)))
    optimizer = make(optim, list(model.parameters()))
    schedule = schedule and schedule(lr_scheduler, optimizer)
    step = make_step(model, optimizer, clip, way)
    losses = []
    for number in range(nn_cases.STEPS):
        losses.append(step(*nn_cases.train_data(number)).item())
        if schedule:
            schedule.step()
    want = goldens[f"{name}/float64"]
    d = np.abs(goldens[f"{name}/float32"] - want).max()
    bound = 8 * d + 10 * 2**-24 * want[0]
    assert np.abs(losses - want).max() <= bound, (np.abs(losses - want).max(), bound)
    assert optimizer.steps == nn_cases.STEPS
    if way == "compiled":
        assert len(step._variants) == 1 and len(next(iter(step._variants.values()))) == 1  # no rate compiles anew


def tiny():
    p.manual_seed(1)
    model = nn.Linear(2, 1)
    return model, optim.AdamW(model.parameters(), lr=0.1)


def test_what_depends_on_parameters_is_computed_by_the_step():
    """Losses, norms, logits that somebody holds: as they were before the step."""
    model, optimizer = tiny()
    x = p.ones((4, 2))
    logits = model(x)
    loss = (logits ** 2).mean()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    before = model.weight.numpy().sum() + model.bias.numpy()
    optimizer.step()
    np.testing.assert_allclose(logits.numpy(), np.full((4, 1), before), rtol=1e-6)
    np.testing.assert_allclose(loss.item(), before**2, rtol=1e-6)
    np.testing.assert_allclose(norm.item(), 2 * abs(before[0]) * 3**0.5, rtol=1e-5)
    assert model.weight.grad is None
    late = model(x)
    (model(x) ** 2).mean().backward()
    optimizer.step()
    with pytest.raises(p.InvalidError, match="before it changed"):
        late.numpy()


def test_two_models_on_two_devices():
    """The step of one leaves alone what was computed with the other."""
    model, optimizer = tiny()
    with p.device("cpu:reference"):
        other, second = tiny()
    x = np.float32([[1, 2]])
    a, b = (model(x) ** 2).sum(), (other(x) ** 2).sum()
    a.backward(), b.backward()
    optimizer.step(), second.step()
    np.testing.assert_allclose(a.item(), b.item(), rtol=1e-6)
    np.testing.assert_allclose(model.weight.numpy(), other.weight.numpy(), rtol=1e-6)


def test_several_losses_before_a_step():
    """Gradients add up, as over the parts of a batch; a compiled step may do the same."""
    x = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)

    def whole(model, optimizer):
        (model(x) ** 2).mean().backward()
        optimizer.step()

    def parts(model, optimizer):
        for part in np.split(x, 3):
            ((model(part) ** 2).mean() / 3).backward()
        optimizer.step()

    results = []
    for way in (whole, parts, p.function(parts)):
        model, optimizer = tiny()
        way(model, optimizer)
        way(model, optimizer)
        results.append(model.weight.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)
    np.testing.assert_allclose(results[2], results[0], rtol=1e-5)


def test_two_steps_in_one_program():
    x = np.float32([[1, 2], [3, 4]])

    def once(model, optimizer):
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    model, optimizer = tiny()
    want = [once(model, optimizer).item() for _ in range(4)]
    model, optimizer = tiny()
    twice = p.function(lambda: (once(model, optimizer), once(model, optimizer)))
    got = [x.item() for _ in range(2) for x in twice()]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert optimizer.steps == 4


def test_gradients_from_before_do_not_count_in_a_compiled_step():
    model, optimizer = tiny()
    x = p.ones((1, 2))
    (model(x) * 1000).sum().backward()
    kept = model.weight.grad

    @p.function
    def gradient():
        model(x).sum().backward()
        return model.weight.grad

    assert gradient().tolist() == [[1, 1]]
    assert model.weight.grad is kept


def first_rates(optimizer, schedule, count):
    found = []
    for _ in range(count):
        found.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    del optimizer.param_groups[0]["initial_lr"]
    optimizer.param_groups[0]["lr"] = 0.1
    return found


def test_rates():
    model, optimizer = tiny()

    noam = first_rates(optimizer, lr_scheduler.NoamLR(optimizer, d_model=64, warmup_steps=4), 8)
    np.testing.assert_allclose(noam, [0.1 * 64**-0.5 * min(n**-0.5, n * 4**-1.5) for n in range(1, 9)])
    warm = first_rates(optimizer, lr_scheduler.WarmupCosineLR(optimizer, 2, 6, minimum=0.1), 8)
    np.testing.assert_allclose(warm[:3], [0.05, 0.1, 0.1])
    np.testing.assert_allclose(warm[6:], [0.01, 0.01])
    assert warm[2] > warm[3] > warm[4] > warm[5]
    np.testing.assert_allclose(first_rates(optimizer, lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (n + 1)), 3), [0.1, 0.05, 0.1 / 3])
    cosine = first_rates(optimizer, lr_scheduler.CosineAnnealingLR(optimizer, T_max=7, eta_min=0.01), 12)
    np.testing.assert_allclose(cosine, [0.01 + 0.045 * (1 + math.cos(math.pi * n / 7)) for n in range(12)])
    steps = first_rates(optimizer, lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5), 12)
    np.testing.assert_allclose(steps, [0.1 * 0.5 ** (n // 3) for n in range(12)])


def test_schedules_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    _, optimizer = tiny()
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    for name, options in (("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.01}), ("StepLR", {"step_size": 3, "gamma": 0.5})):
        theirs.param_groups[0].update(lr=0.1, initial_lr=0.1)
        schedule, want = getattr(torch.optim.lr_scheduler, name)(theirs, **options), []
        for _ in range(12):
            want.append(theirs.param_groups[0]["lr"])
            theirs.step()
            schedule.step()
        np.testing.assert_allclose(first_rates(optimizer, getattr(lr_scheduler, name)(optimizer, **options), 12), want, atol=1e-12)


def test_rate_as_a_function_of_the_step():
    p.manual_seed(1)
    model = nn.Linear(1, 1, bias=False)
    before = model.weight.item()
    optimizer = optim.SGD(model.parameters(), lr=lambda n: 10.0**-n)
    step = p.function(lambda: (model(p.ones((1, 1))).sum().backward(), optimizer.step())[1])
    step(), step()
    np.testing.assert_allclose(model.weight.item(), before - 0.1 - 0.01, rtol=1e-6)


def test_states_are_kept_and_taken_over():
    def train(model, optimizer, count):
        for _ in range(count):
            (model(p.ones((1, 2))) ** 2).sum().backward()
            optimizer.step()

    model, optimizer = tiny()
    train(model, optimizer, 5)
    weights, state = model.state_dict(), optimizer.state_dict()
    train(model, optimizer, 5)
    again, other = tiny()
    again.load_state_dict(weights)
    other.load_state_dict(state)
    train(again, other, 5)
    assert np.array_equal(again.weight.numpy(), model.weight.numpy()) and other.steps == 10


def test_options_that_change_compile_anew():
    model, optimizer = tiny()
    step = p.function(lambda: ((model(p.ones((1, 2))) ** 2).sum().backward(), optimizer.step())[1])
    step()
    optimizer.param_groups[0]["weight_decay"] = 5.0  # half of it, at this rate
    before = model.weight.numpy()
    step()
    assert np.abs(model.weight.numpy() - before / 2).max() <= 0.11  # and a step of 0.1
    model.weight.requires_grad_(False)
    before = model.weight.numpy()
    step()
    assert np.array_equal(model.weight.numpy(), before)


@pytest.mark.parametrize("what, error, words", [
    (lambda: optim.SGD([], lr=1), p.InvalidError, "no parameters"),
    (lambda: optim.SGD([p.ones((2,))], lr=1), TypeError, "Parameter"),
    (lambda: optim.SGD(nn.Linear(1, 1).parameters(), lr=-1), p.InvalidError, "lr is -1"),
    (lambda: optim.AdamW(nn.Linear(1, 1).parameters(), betas=(0.9, 1)), p.InvalidError, "betas"),
    (lambda: optim.SGD(nn.Linear(1, 1).parameters(), nesterov=True), p.InvalidError, "nesterov"),
    (lambda: optim.SGD([{"params": list(nn.Linear(1, 1).parameters()), "rate": 1}]), p.InvalidError, "no option rate"),
    (lambda: optim.SGD(nn.Linear(1, 1).parameters()).step(), p.InvalidError, "no parameter has a gradient"),
    (lambda: optim.SGD(nn.Linear(1, 1).to("float16").parameters()), p.InvalidError, "are float32"),
    (lambda: p.function(lambda: lr_scheduler.LambdaLR(tiny()[1], lambda n: n).step())(), p.InvalidError, "outside"),
])
def test_misuse_is_one_line(what, error, words):
    with pytest.raises(error, match=words) as caught:
        what()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("way, runs", [("compiled", 10000), ("as in PyTorch", 1000)])
def test_nothing_leaks_in_training(way, runs):
    """10,000 steps (500 where the device is not the cpu plugin's, and takes longer): descriptors and threads stay as they
    are, and there is a fifth in which memory grows by less than 256 KiB; the operands of its steps are 0.4 MiB at least."""
    runs = runs if os.environ.get("PORTICO_BACKEND", "cpu").startswith("cpu") else min(runs, 500)
    model = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = optim.AdamW(model.parameters())
    x = np.ones((64, 16), np.float32)

    def step(x):
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = p.function(step) if way == "compiled" else step
    sizes, handles = [], []
    for _ in range(5):
        for _ in range(runs // 5):
            step(x + 0)
        gc.collect()
        sizes.append(resident()), handles.append(held())
    assert len(set(handles)) == 1
    # What grows once, as allocators' and drivers' own memory does, is no leak: what grows in every fifth is.
    assert min(b - a for a, b in zip(sizes, sizes[1:])) < 1 << 18, sizes
