from typing import Iterable, Union

from portico import Tensor
from portico.nn import Parameter

def clip_grad_norm_(parameters: Union[Parameter, Iterable[Parameter]], max_norm: float) -> Tensor: ...
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor: ...
