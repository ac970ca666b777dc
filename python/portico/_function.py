"""Functions compiled once for each combination of shapes and types, and gradients."""
import functools
import weakref

import numpy as np

from portico import _dtypes, _graph, _native as native, _numbers, _runtime, _tensor
from portico._tensor import Tensor, apply, asarray, evaluate

VARIANTS = 64  # most programs that a function keeps


# ---- nested containers ----

def flatten(tree, leaves, is_leaf):
    """The shape of nested dicts, lists and tuples, with their leaves taken out."""
    if isinstance(tree, dict):
        return dict, tuple(tree), tuple([flatten(tree[key], leaves, is_leaf) for key in tree])
    if isinstance(tree, (list, tuple)):
        kind = type(tree)
        return kind, None, tuple([flatten(x, leaves, is_leaf) for x in tree])
    if is_leaf(tree):
        leaves.append(tree)
        return None
    return "static", tree if _hashable(tree) else id(tree), _Kept(tree)


class _Kept:
    """Something that is no tensor: part of what a function is compiled for."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _Kept) and (self.value is other.value or type(self.value) is type(other.value))

    def __hash__(self):
        return hash(type(self.value))


def _hashable(x):
    try:
        hash(x)
    except TypeError:
        return False
    return True


def unflatten(shape, leaves):
    """`leaves` is an iterator."""
    if shape is None:
        return next(leaves)
    kind, keys, children = shape
    if kind == "static":
        return children.value
    parts = [unflatten(child, leaves) for child in children]
    if kind is dict:
        return dict(zip(keys, parts))
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def _is_tensor(x):
    return isinstance(x, (Tensor, np.ndarray, float, np.floating)) or hasattr(x, "__dlpack__")


def tensors_of(tree):
    leaves = []
    shape = flatten(tree, leaves, lambda x: isinstance(x, Tensor))
    return leaves, shape


def eval(*trees):  # noqa: A001: what other lazy libraries call it
    """Computes the values of all tensors in the arguments (which may be nested lists, tuples and dicts) in one run."""
    leaves, _ = tensors_of(trees)
    evaluate(leaves)
    return trees[0] if len(trees) == 1 else trees


# ---- compiling ----

class Tracing:
    """What happens while a function is compiled."""

    def __init__(self):
        self.current = {}  # state -> the tensor that has its value now
        self.effects = []
        self.inputs = []   # [(placeholder, function that gives the array of each run)]
        self.guards = {}   # (identity of an object, name of an attribute) -> (the object, name, value)
        self.watched = []
        self.gradients = {}  # parameter -> the gradient that it had before
        self.random = {}   # generator -> (seed, offset) of its numbers in a run
        self.streams = 0   # how many sequences of random numbers are drawn from it

    def current_of(self, state):
        return self.current.get(state, state)

    def wrote(self, node, results):
        self.effects.append(node)
        for state, result in zip(node.states, results):
            self.current[state] = result

    def input(self, shape, dtype, value):
        """A tensor whose value each run asks value() for: a rate, a counter."""
        made = _tensor.placeholder(shape, dtype, None)
        self.inputs.append((made, value))
        return made

    def guard(self, owner, name, value):
        """The function is to be compiled again when an attribute has another value; whoever changes one counts
        _graph.Changes."""
        self.guards.setdefault((id(owner), name), (owner, name, value))

    def watch(self, owner, name, value):
        """As guard(), for what changes without being counted: it is looked at in each call."""
        self.watched.append((weakref.ref(owner), name, value))

    def gradient_of(self, parameter):
        """What was added to its gradient since the function began: nothing from before belongs to it."""
        if parameter not in self.gradients:
            self.gradients[parameter] = parameter.grad
            parameter.grad = None
        return parameter.grad

    def end(self):
        for parameter, gradient in self.gradients.items():
            parameter.grad = gradient


class _Variant:
    """A function compiled for one combination of shapes and types."""

    def __init__(self, program, tracing, leaves, places, out_shape, constants):
        self.program = program
        self.guards = [(weakref.ref(owner), name, value) for owner, name, value in tracing.guards.values()]
        self.watched = tracing.watched
        self.checked = _graph.Changes.count
        self.states = [(x, x.name, x.requires_grad) for x in leaves if x.is_state]
        self.cut = any(requires_grad for _, _, requires_grad in self.states)
        self.leaves = leaves        # of the program
        self.places = places        # of each leaf: number of an argument, of an input, or None for a state or constant
        self.inputs = [value for _, value in tracing.inputs]
        self.out_shape = out_shape
        self.constants = constants  # {number of a result: tensor that was no result of the program}

    def valid(self):
        if self.program.handle is None:
            return False
        if not _unchanged(self.watched):
            return False
        now = _graph.Changes.count
        if self.checked == now:
            return True
        if not _unchanged(self.guards):
            return False
        for state, name, requires_grad in self.states:
            if state.name != name or state.requires_grad != requires_grad:  # it was moved to another device, or frozen
                return False
        self.checked = now
        return True


def _unchanged(guards):
    for owner, name, value in guards:
        it = owner()
        found = value if it is None else getattr(it, name, None)
        if found is not value and (isinstance(value, Tensor) or isinstance(found, Tensor) or found != value):
            return False
    return True


class Function:
    """A function that was decorated with @portico.function."""

    def __init__(self, function, device=None):
        functools.update_wrapper(self, function)
        self._function = function
        self._device = _runtime.device_spec(device)
        self._variants = {}

    def __get__(self, owner, kind=None):
        return self if owner is None else functools.partial(self, owner)

    def __repr__(self):
        return f"<portico.function {getattr(self._function, '__qualname__', self._function)}>"

    def __call__(self, *args, **keywords):
        if _graph.trace.current is not None or _graph.trace.gradients:  # becomes part of what is made
            return self._function(*args, **keywords)
        given = []
        shape = flatten((args, keywords), given, _is_tensor)
        operands = [x if isinstance(x, Tensor) else asarray(x) for x in given]
        pending = [x for x in operands if x._data is None and not x.is_state]
        if pending:
            evaluate(pending)
        device = self._device or next((x._device for x in operands if x._device is not None), None) or \
            _runtime.current_device()
        context = _runtime.context()
        with context.use():
            where = context if device is None else context.session(device)
        key = (where, shape, tuple([x.leaf_key() for x in operands]))
        variants = self._variants.setdefault(key, [])  # of one combination: a model in training and in use, for example
        variant = next((v for v in variants if v.valid()), None)
        if variant is None:
            variants[:] = [v for v in variants if v.program.handle is not None]
            variant = self._compile(context, device, shape, operands)
            variants.append(variant)
            self._forget()
        return self._run(context, variant, operands, device)

    def _forget(self):
        """Keeps at most VARIANTS programs, those made last."""
        while sum(map(len, self._variants.values())) > VARIANTS:
            first = next(iter(self._variants))
            self._variants[first].pop(0)
            if not self._variants[first]:
                del self._variants[first]

    def _run(self, context, variant, operands, device):
        count = len(operands)
        leaves = list(variant.leaves)
        for index, place in enumerate(variant.places):
            if place is None:
                continue
            leaves[index] = operands[place] if place < count else \
                _tensor.leaf(variant.inputs[place - count](), leaves[index].dtype, None)
        with context.use():
            results = variant.program.run(leaves)
        results = [_tensor.leaf(data, dtype, device, own=True)
                   for data, (_, dtype) in zip(results, variant.program.outputs)]
        if variant.cut:
            for x in results:
                x._cut = x.dtype.is_float
        for index, x in variant.constants.items():
            results.insert(index, x)
        return unflatten(variant.out_shape, iter(results))

    def _compile(self, context, device, shape, operands):
        placeholders = [x if x.is_state else _tensor.placeholder(x.shape, x.dtype, device) for x in operands]
        args, keywords = unflatten(shape, iter(placeholders))
        tracing = Tracing()
        _graph.trace.current = tracing
        try:
            with _runtime.device(device):
                out = self._function(*args, **keywords)
                results = []
                out_shape = flatten(out, results, lambda x: isinstance(x, Tensor))
                results = [tracing.current_of(x) if x.is_state else x for x in results]
        finally:
            _graph.trace.current = None
            tracing.end()
        # A result that was there before, and is no expression, need not go through a program.
        constants = {i: x for i, x in enumerate(results) if x._node is None and x._data is not None and not x.is_state}
        roots = [x for i, x in enumerate(results) if i not in constants]
        nodes, leaves, _ = _graph.collect(roots, tracing.effects)
        where = {id(x): i for i, x in enumerate(placeholders) if not x.is_state}
        where.update({id(x): len(operands) + i for i, (x, _) in enumerate(tracing.inputs)})
        places = [where.get(id(x)) for x in leaves]
        for x, place in zip(leaves, places):
            if place is None and not x.is_state and x._data is None:
                raise native.InvalidError("the function uses a tensor that stood for an argument of another function "
                                          "while that was compiled")
        if device is None:  # then that of the states
            device = next((x._device for x in leaves if x._device is not None), None)
        with context.use():
            session = _graph.session_of(context, leaves, None, device)
            program = _graph.Program(session, nodes, leaves, roots)
        return _Variant(program, tracing, leaves, places, out_shape, constants)

    def statistics(self):
        """Of each compiled variant: nodes, parts, cpu_nodes, arena_bytes and more."""
        return [variant.program.statistics() for variants in self._variants.values() for variant in variants
                if variant.program.handle is not None]


def function(function=None, *, device=None):
    """Compiles a function of tensors once for each combination of shapes and types of its arguments.

        @portico.function
        def step(x, y):
            return ((x @ w - y) ** 2).mean()

    When it is first called with a combination, the function runs once with tensors that stand for its arguments, and
    what it does with them becomes one program; later calls run that. Arguments may be nested lists, tuples and dicts.
    Tensors, arrays and Python floats are operands of the program; everything else (int, str, bool, None, objects) is part
    of the combination. Tensors from outside of the function are operands, too; parameters and states are read and written
    where they are on the device. Values cannot be asked for inside of it, as there are none.

    device: as in PORTICO_BACKEND; None: that of the arguments, or of `with portico.device(...)`.
    """
    if function is None:
        return lambda f: Function(f, device)
    return Function(function, device)


# ---- gradients ----

def _keep(operands):
    """Gradients follow the operations from the loss to what it is differentiated for, also when somebody asks for the
    value of a tensor on the way before, which then is no expression any more: the operations get tensors of their own
    as operands, which nobody else has."""
    nodes, leaves, _ = _graph.collect(operands[:1], ())
    if any(x._cut for x in leaves):
        raise native.InvalidError("the loss was computed from a value that was asked for before its gradients, or that a "
                                  "@portico.function returned, and what that was computed from is forgotten; ask for it "
                                  "afterwards, or use x.detach()")
    own = {}
    for node in nodes:
        node.inputs = tuple([x if x is None or x._node is None else _own(x, own) for x in node.inputs])
    operands[:] = [x if x._node is None else _own(x, own) for x in operands]
    if any(x.is_state for x in leaves):
        # What somebody still holds of it cannot be computed any more when a step has changed the states: the step does.
        alive = [x for node in nodes for x in (reference() for reference in node.results) if x is not None]
        want([x for x in alive if x._data is None])


def _own(x, own):
    found = own.get((id(x._node), x._index))
    if found is None:
        found = _tensor._make(x.shape, x.dtype, x._node, x._index, None, False, x._device, x._depth)
        own[id(x._node), x._index] = found
    return found


def _check_reached(loss, wrt):
    """An expression whose value was asked for is a value, and nothing is differentiated through it: then a loss does not
    depend on what it was computed from, and zeros would be wrong."""
    nodes, leaves, _ = _graph.collect((loss,), ())
    there = {id(x) for x in leaves} | {(id(node), i) for node in nodes for i in range(len(node.specs))}
    for number, x in enumerate(wrt):
        if x is not loss and (id(x) if x._node is None else (id(x._node), x._index)) not in there:
            raise native.InvalidError(
                f"the loss does not depend on tensor {number} of those it is differentiated for; if it should, the value "
                "of something between them was asked for too early: ask for it after the gradients")


def gradients(loss, wrt):
    """[d loss / d x for x in wrt], as expressions. `loss` is a float32 tensor of one element that was computed from
    them. Errors: InvalidError where it does not depend on one;
    UnsupportedError naming the operation that has no gradient."""
    wrt = list(wrt)
    if not isinstance(loss, Tensor):
        raise TypeError(f"loss is {type(loss).__name__}, and must be a tensor")
    if loss.size != 1:
        raise native.InvalidError(f"gradients are of one number; the loss has the shape {loss.shape}; sum() or mean() it")
    if loss._node is None and not any(x is loss for x in wrt):
        if _graph.trace.current is None and loss._data is not None:
            raise native.InvalidError("the value of the loss was asked for before its gradients, and how it was computed "
                                      "is forgotten; ask for it afterwards")
    for x in wrt:
        if not x.dtype.is_float:
            raise native.InvalidError(f"gradients are of floats; one tensor is of type {x.dtype}")
    if not wrt:
        return []
    now = _graph.trace.current
    operands = [loss, *wrt]
    if now is not None:
        operands = [now.current_of(x) if x.is_state else x for x in operands]
    if now is None:
        _check_reached(operands[0], [x for x in operands[1:] if not x.is_state])
        _keep(operands)
    node = _graph.Node(_graph.GRADIENTS, b"", tuple(operands), tuple((x.shape, x.dtype) for x in wrt))
    return [_tensor._make(x.shape, x.dtype, node, i, None, False, loss._device or x._device, loss._depth + 1)
            for i, x in enumerate(wrt)]


def _distinct(x):
    """The same value as a tensor of its own, so that gradients are those of the argument, and not of what else the
    function finds under another name."""
    x = asarray(x)
    if x.is_state:
        return x
    if not x.dtype.is_float:
        raise native.InvalidError(f"gradients are of floats; an argument is of type {x.dtype}")
    return apply(_numbers.RESHAPE, (x,), _tensor._shape_attributes(x.shape))


def value_and_grad(function, argnums=0, has_aux=False):
    """A function that returns (function(...), its gradients for argument number `argnums`).

    The argument may be a tensor, a nested list, tuple or dict of tensors, or a portico.nn.Module, whose gradients are a
    dict by the names of its parameters; argnums may be a tuple of numbers. has_aux: the function returns (loss, more).
    """
    several = isinstance(argnums, (tuple, list))
    numbers = tuple(argnums) if several else (argnums,)

    @functools.wraps(function)
    def wrapped(*args, **keywords):
        args = list(args)
        wrt, shapes = [], []
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise native.InvalidError(f"argnums is {number}, and the function was called with {len(args)} arguments")
            if hasattr(args[number], "named_parameters"):
                found = {name: x for name, x in args[number].named_parameters() if x.requires_grad}
                shapes.append(flatten(found, [], lambda x: isinstance(x, Tensor)))
                wrt += list(found.values())
                continue
            leaves = []
            shapes.append(flatten(args[number], leaves, _is_tensor))
            leaves = [_distinct(x) for x in leaves]
            args[number] = unflatten(shapes[-1], iter(leaves))
            wrt += leaves
        _graph.trace.gradients += 1
        try:
            out = function(*args, **keywords)
        finally:
            _graph.trace.gradients -= 1
        loss = out[0] if has_aux else out
        found = iter(gradients(loss, wrt))
        trees = tuple([unflatten(shape, found) for shape in shapes])
        return out, trees if several else trees[0]

    return wrapped


def grad(function, argnums=0):
    """A function that returns the gradients of `function` (which returns a tensor of one element) for argument number
    `argnums`, as portico.value_and_grad does. It can be differentiated again where the operations' gradients can."""
    both = value_and_grad(function, argnums)

    @functools.wraps(function)
    def wrapped(*args, **keywords):
        return both(*args, **keywords)[1]

    return wrapped


def backward(loss):
    _, leaves, _ = _graph.collect((loss,), ())
    parameters = [x for x in leaves if x.is_state and x.requires_grad]
    if not parameters:
        raise native.InvalidError("this tensor depends on no parameter (portico.nn.Parameter), so that there is nothing "
                                  "to differentiate for; if it does, its value was asked for before backward()")
    tracing = _graph.trace.current
    for x, gradient in zip(parameters, gradients(loss, parameters)):
        before = x.grad if tracing is None else tracing.gradient_of(x)
        x.grad = gradient if before is None else before + gradient


def want(tensors):
    """Tensors that the next step of an optimiser computes as well, if somebody still holds them then."""
    wanted = [r for r in _graph.trace.wanted if r() is not None and r()._data is None]
    _graph.trace.wanted = wanted + [weakref.ref(x) for x in tensors]


def take_wanted(effects):
    """Those that depend on a state that one of these nodes writes. The others are still wanted."""
    written = {id(state) for node in effects for state in node.states}
    alive = [x for x in (reference() for reference in _graph.trace.wanted) if x is not None and x._data is None]
    found, others = [], []
    for x in dict.fromkeys(alive):
        _, leaves, _ = _graph.collect((x,), ())
        (found if any(id(leaf) in written for leaf in leaves) else others).append(x)
    _graph.trace.wanted = [weakref.ref(x) for x in others]
    return found


def global_norm(tensors):
    """The euclidean norm of all elements of some tensors together, of shape [1]."""
    tensors = tuple(tensors)
    return _special(_graph.GLOBAL_NORM, None, tensors)


def clipped(gradients, most):
    """(norm of all together, what they are multiplied with so that it is at most `most`), each of shape [1]."""
    if not most > 0:
        raise native.InvalidError(f"max_norm is {most}, and must be above 0")
    norm = global_norm(gradients)
    if _graph.trace.current is None:
        want([norm])
    return norm, _special(_graph.CLIP_SCALE, float(most), (norm,))


def _special(op, attributes, inputs):
    node = _graph.Node(op, attributes, inputs, (((1,), _dtypes.float32),))
    device = next((x._device for x in inputs if x._device is not None), None)
    depth = max((x._depth for x in inputs), default=0) + 1
    return _tensor._make((1,), _dtypes.float32, node, 0, None, False, device, depth)


def phase_table(op, attributes, pairs):
    """The constant that rope and sinusoidal_positions take."""
    node = _graph.Node(op, attributes, (), (((pairs, 2), _dtypes.int32),))
    return _tensor._make((pairs, 2), _dtypes.int32, node, 0, None, False, None, 1)
