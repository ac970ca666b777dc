"""Rates that follow a schedule; as torch.optim.lr_scheduler. scheduler.step() after each step of the optimiser, outside of
compiled functions; the next step has the new rate, and nothing is compiled anew."""
import math

from portico import _graph, _native as native


class LRScheduler:
    """What schedules share: the rate of a group is its first one times factor(n), n being how often step() was called."""

    def __init__(self, optimizer):
        self.optimizer, self.last_epoch = optimizer, 0
        for group in optimizer.param_groups:
            if callable(group["lr"]):
                raise native.InvalidError("the optimiser's lr is a function already; give it a number")
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self._set()

    def factor(self, step):
        """By what the first rate is multiplied."""
        raise NotImplementedError

    def rate(self, base, step):
        """The rate of a group whose first one is `base`."""
        return base * self.factor(step)

    def _set(self):
        for group, base in zip(self.optimizer.param_groups, self.base_lrs):
            group["lr"] = self.rate(base, self.last_epoch)

    def step(self):
        """Sets the rate of the optimiser's next step."""
        if _graph.trace.current is not None:
            raise native.InvalidError("scheduler.step() inside of a @portico.function would happen only while that is "
                                      "compiled; call it outside")
        self.last_epoch += 1
        self._set()

    def get_last_lr(self):
        """The rates of the groups, as they are now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        """What load_state_dict() takes."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state_dict):
        """Goes on where another one was."""
        self.last_epoch, self.base_lrs = state_dict["last_epoch"], list(state_dict["base_lrs"])
        self._set()


class LambdaLR(LRScheduler):
    """The first rate times lr_lambda(n)."""

    def __init__(self, optimizer, lr_lambda):
        self.lr_lambda = lr_lambda
        super().__init__(optimizer)

    def factor(self, step):
        return self.lr_lambda(step)


class StepLR(LRScheduler):
    """The rate times gamma after each step_size steps."""

    def __init__(self, optimizer, step_size, gamma=0.1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def factor(self, step):
        return self.gamma ** (step // self.step_size)


class CosineAnnealingLR(LRScheduler):
    """From the first rate to eta_min along half a cosine of T_max steps (Loshchilov & Hutter 2017), and back."""

    def __init__(self, optimizer, T_max, eta_min=0.0):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def rate(self, base, step):
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * step / self.T_max)) / 2


class WarmupCosineLR(LRScheduler):
    """Rises evenly over warmup_steps, then falls along half a cosine to minimum times the first rate at total_steps."""

    def __init__(self, optimizer, warmup_steps, total_steps, minimum=0.0):
        if not 0 <= warmup_steps < total_steps:
            raise native.InvalidError(f"warmup_steps is {warmup_steps}, and must be below total_steps, {total_steps}")
        self.warmup_steps, self.total_steps, self.minimum = warmup_steps, total_steps, minimum
        super().__init__(optimizer)

    def factor(self, step):
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        share = min((step - self.warmup_steps) / (self.total_steps - self.warmup_steps), 1)
        return self.minimum + (1 - self.minimum) * (1 + math.cos(math.pi * share)) / 2


class NoamLR(LRScheduler):
    """The paper's: the first rate times d_model^-0.5 min(n^-0.5, n warmup_steps^-1.5), n = 1 at first (Vaswani et al.
    2017, 5.3). The optimiser's lr is 1 as a rule."""

    def __init__(self, optimizer, d_model, warmup_steps=4000):
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(optimizer)

    def factor(self, step):
        n = step + 1
        return self.d_model**-0.5 * min(n**-0.5, n * self.warmup_steps**-1.5)
