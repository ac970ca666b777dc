"""SGD, Adam and AdamW."""
import math

import numpy as np

from portico import _dtypes, _function, _graph, _native as native, _tensor, ops
from portico._tensor import State, asarray
from portico.nn.module import Parameter, clear_gradients


class Optimizer:
    """What all optimisers share. params: parameters, or groups of them with options of their own, [{"params": ..., "lr":
    ...}]. lr is a number, or a function of the number of the step (1, 2, 3 ...), for each step what it is then.

    param_groups may be changed between steps; lr without anything being compiled anew.
    """

    _moments: tuple = ()  # names of the states of each parameter

    def __init__(self, params, defaults):
        if isinstance(params, Parameter):
            raise TypeError("params is one parameter, and must be several: a list, or model.parameters()")
        groups = list(params)
        if not groups:
            raise native.InvalidError("the optimiser got no parameters")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults, self.param_groups = defaults, []
        self.steps = 0   # that were made
        self.state = {}  # parameter -> {name: portico.State}
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group):
        """More parameters, with options of their own."""
        group = {**self.defaults, **group}
        params = group["params"]
        group["params"] = params = [params] if isinstance(params, Parameter) else list(params)
        for x in params:
            if not isinstance(x, Parameter):
                raise TypeError(f"a parameter is {type(x).__name__}, and must be portico.nn.Parameter")
            if x.dtype is not _dtypes.float32:
                raise native.InvalidError(f"parameter '{x.label}' is {x.dtype}; those that are trained are float32")
            if x in self.state:
                raise native.InvalidError(f"parameter '{x.label}' is there twice")
            self.state[x] = {name: State(np.zeros(x.shape, np.float32), device=x.device, label=f"{name} of {x.label}")
                             for name in self._moments}
        unknown = set(group) - set(self.defaults) - {"params", "initial_lr"}
        if unknown:
            raise native.InvalidError(f"{type(self).__name__} has no option {', '.join(sorted(unknown))}; there are "
                                      f"{', '.join(self.defaults)}")
        self._check(group)
        self.param_groups.append(group)

    @staticmethod
    def _check(group):
        for name in ("lr", "eps", "weight_decay", "momentum"):
            value = group.get(name, 0)
            if not callable(value) and not (value >= 0 and math.isfinite(value)):
                raise native.InvalidError(f"{name} is {value}, and must be 0 or more")

    def rate(self, group):
        """The rate of a group for the step that is made now."""
        lr = group["lr"]
        return float(lr(self.steps) if callable(lr) else lr)

    def zero_grad(self, set_to_none=True):
        """Forgets the gradients of all parameters."""
        clear_gradients(self.state)

    def step(self, gradients=None):
        """Changes the parameters by their gradients: those that backward() left, or a dict by name, list or nested tree of
        them as portico.value_and_grad gives for what the optimiser was made from. Parameters without one stay as they are.

        The gradients are used up: afterwards there are none, as after zero_grad(). Outside of a compiled function the step
        runs at once, with the loss and whatever else depends on the parameters and is still held.
        """
        if gradients is not None:
            self._take(gradients)
        now = _graph.trace.current
        if now is None:
            outer, _graph.trace.deferred = _graph.trace.deferred, []
            try:
                self._update_all(None)
                effects = tuple(_graph.trace.deferred)
            finally:
                _graph.trace.deferred = outer
            if not effects:
                raise native.InvalidError("no parameter has a gradient; call loss.backward() before the step")
            _tensor.evaluate(_function.take_wanted(effects), effects)
        else:
            self._update_all(now)
        clear_gradients(self.state)

    def _take(self, gradients):
        leaves, _ = _function.tensors_of(gradients)
        wanted = [x for x in self.state if x.requires_grad]
        if len(leaves) != len(wanted):
            raise native.InvalidError(f"there are {len(leaves)} gradients and {len(wanted)} parameters")
        for x, gradient in zip(wanted, leaves):
            if gradient.shape != x.shape:
                raise native.InvalidError(f"parameter '{x.label}' has the shape {x.shape}, and its gradient "
                                          f"{gradient.shape}")
            if _graph.trace.current is not None:
                _graph.trace.current.gradient_of(x)
            x.grad = gradient

    def _update_all(self, tracing):
        for number, group in enumerate(self.param_groups):
            run = self._run_operand(tracing, number)
            for x in group["params"]:
                gradient = x.grad if tracing is None else tracing.gradient_of(x)
                if gradient is not None and x.requires_grad:
                    self._update(group, x, gradient, run)

    def _run_operand(self, tracing, number):
        """What changes from step to step: a tensor, which a compiled function asks for in each run."""
        group = self.param_groups[number]

        def values():
            if number == 0:
                self.steps += 1
            return np.array(self._run_values(group), np.float32)
        if tracing is None:
            return asarray(values())
        if number == 0:
            tracing.watch(self, "options", self.options)
        return tracing.input((self._run_size,), _dtypes.float32, values)

    @property
    def options(self):
        """What a compiled step is made from beside the rates."""
        return tuple(tuple((k, v) for k, v in group.items() if k not in ("params", "lr", "initial_lr")) +
                     tuple(map(id, group["params"])) for group in self.param_groups)

    # ---- saving ----

    def state_dict(self):
        """{"steps", "state": {number of the parameter: {name: tensor}}, "param_groups"}."""
        numbers = {x: number for number, x in enumerate(self.state)}
        state = {number: {name: _tensor.tensor(moment.numpy()) for name, moment in self.state[x].items()}
                 for x, number in numbers.items()}
        groups = [{**{k: v for k, v in group.items()}, "params": [numbers[x] for x in group["params"]]}
                  for group in self.param_groups]
        return {"steps": self.steps, "state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() returned, of an optimiser of the same parameters. Errors: InvalidError where shapes
        or numbers differ; then nothing has changed."""
        groups = state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise native.InvalidError("the groups of parameters are not those of this optimiser")
        moments = []
        for number, (x, states) in enumerate(self.state.items()):
            for name, state in states.items():
                value = asarray(state_dict["state"][number][name])
                if value.shape != state.shape:
                    raise native.InvalidError(f"{state.label} has the shape {state.shape}, and the value {value.shape}")
                moments.append((state, value))
        for state, value in moments:
            state.assign(value)
        for own, group in zip(self.param_groups, groups):
            own.update({k: v for k, v in group.items() if k != "params"})
        self.steps = int(state_dict["steps"])
        _graph.Changes.count += 1

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {k}: {v}" for k, v in group.items() if k != "params"]
        return "\n".join(lines + [")"])


class SGD(Optimizer):
    """Gradient descent, with momentum (Sutskever et al. 2013): velocity = momentum velocity + g, parameter -= lr velocity,
    with g the gradient plus weight_decay times the parameter; nesterov looks one step ahead. As torch.optim.SGD without
    dampening."""

    _moments = ("momentum_buffer",)
    _run_size = 1

    def __init__(self, params, lr=1e-3, momentum=0.0, weight_decay=0.0, nesterov=False):
        if nesterov and not momentum:
            raise native.InvalidError("nesterov wants a momentum above 0")
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov})

    def _run_values(self, group):
        return [self.rate(group)]

    def _update(self, group, x, gradient, run):
        ops.sgd(x, self.state[x]["momentum_buffer"], gradient, run, momentum=float(group["momentum"]),
                nesterov=int(group["nesterov"]), weight_decay=float(group["weight_decay"]))


class _Moments(Optimizer):
    """First and second moments of the gradients (Kingma & Ba 2015)."""

    _moments = ("exp_avg", "exp_avg_sq")
    _run_size = 3

    def __init__(self, params, lr, betas, eps, weight_decay):
        for beta in betas:
            if not 0 <= beta < 1:
                raise native.InvalidError(f"betas are {tuple(betas)}, and must be from 0 to below 1")
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay})

    def _run_values(self, group):
        beta1, beta2 = group["betas"]
        return [self.rate(group), 1 - beta1**self.steps, 1 - beta2**self.steps]

    def _adamw(self, group, x, gradient, run, weight_decay):
        states = self.state[x]
        beta1, beta2 = group["betas"]
        ops.adamw(x, states["exp_avg"], states["exp_avg_sq"], gradient, run, beta1=float(beta1), beta2=float(beta2),
                  eps=float(group["eps"]), weight_decay=float(weight_decay))


class AdamW(_Moments):
    """Adam whose weight decay does not go through the moments (Loshchilov & Hutter 2019). As torch.optim.AdamW."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(params, lr, betas, eps, weight_decay)

    def _update(self, group, x, gradient, run):
        self._adamw(group, x, gradient, run, group["weight_decay"])


class Adam(_Moments):
    """Adam (Kingma & Ba 2015); weight decay is added to the gradient. As torch.optim.Adam."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, lr, betas, eps, weight_decay)

    def _update(self, group, x, gradient, run):
        decay = float(group["weight_decay"])
        self._adamw(group, x, gradient + decay * x if decay else gradient, run, 0.0)
