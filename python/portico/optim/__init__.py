"""Optimisers, whose steps are operations on the device; names and semantics are those of torch.optim.

Parameters and moments stay on the device. A step may be written as in PyTorch, where it computes loss, gradients and
update in one run; inside of a @portico.function, where all that is compiled once; or with gradients of one's own:

    loss, gradients = portico.value_and_grad(loss_of)(model, x, y)
    optimizer.step(gradients)

What the step changes, values that were computed from it do not follow: the step computes those that somebody holds.
"""
from portico.optim import lr_scheduler
from portico.optim.optimizers import SGD, Adam, AdamW, Optimizer

__all__ = ["Adam", "AdamW", "Optimizer", "SGD", "lr_scheduler"]
