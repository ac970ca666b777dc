"""Losses as modules; as torch.nn."""
from portico.nn import functional as F
from portico.nn.module import Module


class CrossEntropyLoss(Module):
    """As portico.nn.functional.cross_entropy."""

    def __init__(self, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction, self.label_smoothing = ignore_index, reduction, label_smoothing

    def forward(self, input, target):  # noqa: A002
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class NLLLoss(Module):
    """As portico.nn.functional.nll_loss."""

    def __init__(self, ignore_index=-100, reduction="mean"):
        super().__init__()
        self.ignore_index, self.reduction = ignore_index, reduction

    def forward(self, input, target):  # noqa: A002
        return F.nll_loss(input, target, self.ignore_index, self.reduction)


class _Difference(Module):
    def __init__(self, reduction="mean"):
        super().__init__()
        self.reduction = reduction


class MSELoss(_Difference):
    """As portico.nn.functional.mse_loss."""

    def forward(self, input, target):  # noqa: A002
        return F.mse_loss(input, target, self.reduction)


class L1Loss(_Difference):
    """As portico.nn.functional.l1_loss."""

    def forward(self, input, target):  # noqa: A002
        return F.l1_loss(input, target, self.reduction)


class BCEWithLogitsLoss(_Difference):
    """As portico.nn.functional.binary_cross_entropy_with_logits."""

    def forward(self, input, target):  # noqa: A002
        return F.binary_cross_entropy_with_logits(input, target, self.reduction)
