"""Gradients as a whole; as torch.nn.utils."""
from portico import _function
from portico._tensor import Tensor


def clip_grad_norm_(parameters, max_norm):
    """Multiplies the gradients of the parameters, so that the norm of all of them together is at most max_norm (Pascanu et
    al. 2013): between backward() and the optimiser's step. Returns the norm that it was before, of shape [1], which the
    step computes."""
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    parameters = [x for x in parameters if x.grad is not None]
    norm, scale = _function.clipped([x.grad for x in parameters], max_norm)
    for x in parameters:
        x.grad = x.grad * scale
    return norm


def parameters_to_vector(parameters):
    """All elements of all parameters in one row."""
    from portico import _functions as p

    return p.concatenate([p.reshape(x, (-1,)) for x in parameters])
