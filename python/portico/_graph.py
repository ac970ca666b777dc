"""Expressions: nodes that were recorded, what shape their results have, and programs that compute them."""
import ctypes
import itertools
import threading

import numpy as np

from portico import _dtypes, _native as native, _numbers

GRADIENTS, GLOBAL_NORM, CLIP_SCALE, ROPE_PHASE, SINUSOIDAL_PHASE, SCALAR = -1, -2, -3, -4, -5, -6  # what is no operation

sequence = itertools.count(1)  # nodes and writes of states, in the order in which they were asked for


class Node:
    """An operation that was asked for: its operands are tensors or None, its results are `specs`, [(shape, dtype)]."""

    __slots__ = ("number", "op", "attributes", "inputs", "specs", "results", "states")
    # results: weak references to the tensors that were handed out as its results

    def __init__(self, op, attributes, inputs, specs, states=()):
        self.number = next(sequence)
        self.op, self.attributes, self.inputs, self.specs = op, attributes, inputs, specs
        self.states = states  # those that it writes, in the order of its first results
        self.results = ()

    def name(self):
        from portico.ops import NAMES

        return NAMES.get(self.op, "gradients")


def shape_array(shape):
    return (ctypes.c_int64 * max(len(shape), 1))(*shape)


class Builder:
    """A graph of C that is being built."""

    def __init__(self):
        self.handle = native.graph_create()
        if not self.handle:
            raise native.OutOfMemoryError("out of host memory for a graph")

    def close(self):
        native.graph_destroy(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def check(self):
        native.check(native.graph_check(self.handle, native.error_buffer()))

    def leaf(self, make, name, dtype, shape):
        if len(shape) > native.MAX_RANK:
            raise native.InvalidError(f"{len(shape)} dimensions: a tensor has {native.MAX_RANK} at most")
        return make(self.handle, name.encode(), dtype.number, len(shape), shape_array(shape))

    def add(self, op, attributes, inputs):
        """Appends a node; returns the numbers of its results."""
        operands = (ctypes.c_uint32 * max(len(inputs), 1))(*inputs)
        if op >= 0:
            if op == _numbers.CONCAT and len(inputs) > 8:
                axis = int.from_bytes(attributes[:8], "little", signed=True)
                return [native.graph_concat(self.handle, operands, len(inputs), axis)]
            outputs = (ctypes.c_uint32 * native.MAX_OUTPUTS)(*([native.NONE] * native.MAX_OUTPUTS))
            native.graph_add(self.handle, op, attributes or None, operands, len(inputs), outputs)
            return [number for number in outputs if number != native.NONE]
        if op == GRADIENTS:
            count = len(inputs) - 1
            wrt = (ctypes.c_uint32 * max(count, 1))(*inputs[1:])
            outputs = (ctypes.c_uint32 * max(count, 1))()
            native.check(native.graph_gradients(self.handle, inputs[0], wrt, count, outputs, native.error_buffer()))
            return list(outputs[:count])
        return [self.special(op, attributes, operands, len(inputs))]

    def special(self, op, attributes, operands, count):
        if op == GLOBAL_NORM:
            return native.graph_global_norm(self.handle, operands, count)
        if op == CLIP_SCALE:
            return native.graph_clip_scale(self.handle, operands[0], attributes)
        if op == ROPE_PHASE:
            return native.graph_rope_phase(self.handle, *attributes, None)
        if op == SINUSOIDAL_PHASE:
            return native.graph_sinusoidal_phase(self.handle, *attributes)
        return native.graph_scalar(self.handle, *attributes)

    def describe(self, number):
        found = native.Tensor()
        native.check(native.graph_describe(self.handle, number, found, native.error_buffer()))
        return tuple(found.shape[:found.rank]), _dtypes.ALL[found.dtype]


_inferred: dict = {}  # (op, attributes, operands' shapes and types) -> shapes and types of the results
INFERRED = 1 << 16  # before it is emptied


def infer(op, attributes, operands, names):
    """[(shape, dtype)] of the results; `operands` is [(shape, dtype) or None]. The library's own rules, whose answers are
    kept. Errors: as building has them."""
    key = (op, attributes, operands)
    specs = _inferred.get(key)
    if specs is not None:
        return specs
    with Builder() as builder:
        inputs = []
        for index, operand in enumerate(operands):
            name = names[index] if index < len(names) else f"x{index}"
            # Optimisers and caches want states.
            make = native.graph_state if index in _numbers.STATES.get(op, ()) else native.graph_input
            inputs.append(native.NONE if operand is None else builder.leaf(make, name, operand[1], operand[0]))
        numbers = builder.add(op, attributes, inputs)
        builder.check()
        specs = tuple(builder.describe(number) for number in numbers)
    if len(_inferred) >= INFERRED:
        _inferred.clear()
    _inferred[key] = specs
    return specs


def collect(roots, effects):
    """The nodes that roots (tensors) and effects (nodes) need, in the order in which they were asked for, and the leaves,
    in the order in which the nodes first read them."""
    nodes, seen = [], set()
    stack = [tensor._node for tensor in roots if tensor._node is not None] + list(effects)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        nodes.append(node)
        for operand in node.inputs:
            if operand is not None and operand._node is not None and id(operand._node) not in seen:
                stack.append(operand._node)
    nodes.sort(key=lambda node: node.number)
    leaves, where = [], {}
    for node in nodes:
        for operand in node.inputs:
            if operand is not None and operand._node is None and id(operand) not in where:
                where[id(operand)] = len(leaves)
                leaves.append(operand)
    for tensor in roots:
        if tensor._node is None and id(tensor) not in where:
            where[id(tensor)] = len(leaves)
            leaves.append(tensor)
    return nodes, leaves, where


def key_of(nodes, leaves, where, roots):
    """What two expressions have in common that one program computes, with other leaves."""
    position = {id(node): index for index, node in enumerate(nodes)}
    count = len(leaves)

    def reference(tensor):
        if tensor is None:
            return -1
        if tensor._node is None:
            return where[id(tensor)]
        return count + 4096 * position[id(tensor._node)] + tensor._index

    return (tuple(leaf.leaf_key() for leaf in leaves),
            tuple((node.op, node.attributes, tuple([reference(x) for x in node.inputs])) for node in nodes),
            tuple([reference(x) for x in roots]))


class Program:
    """A compiled expression on a session: leaves in, roots out."""

    def __init__(self, session, nodes, leaves, roots):
        self.session = session
        self.handle = None
        self.leaves = [leaf.spec() for leaf in leaves]
        self.outputs = [(root.shape, root.dtype) for root in roots]
        self.states = [leaf for leaf in leaves if leaf.is_state]
        self.written = [state for node in nodes for state in node.states]
        for state in self.states:
            state.place(session)
        with Builder() as builder:
            numbers = self._leaves(builder, leaves)
            made = {}
            for node in nodes:
                inputs = [native.NONE if x is None else numbers[id(x)] if x._node is None else
                          made[id(x._node)][x._index] for x in node.inputs]
                made[id(node)] = builder.add(node.op, node.attributes, inputs)
            for index, root in enumerate(roots):
                number = numbers[id(root)] if root._node is None else made[id(root._node)][root._index]
                native.graph_output(builder.handle, number, f"out{index}".encode())
            builder.check()
            handle = ctypes.c_void_p()
            native.check(native.executable_create(session.handle, builder.handle, None, handle, native.error_buffer()))
        self.handle = handle.value
        self._handles = [0 if leaf.is_state else native.executable_tensor(handle, f"in{index}".encode())
                         for index, leaf in enumerate(leaves)]
        self._bound = [None] * len(leaves)
        self._lends = session.on_cpu
        self._results = [native.executable_tensor(handle, f"out{index}".encode()) for index in range(len(roots))]
        session.alive.add(self)
        for state in self.states:
            state.ready(session)

    @staticmethod
    def _leaves(builder, leaves):
        numbers = {}
        for index, leaf in enumerate(leaves):
            if leaf.is_state:
                numbers[id(leaf)] = builder.leaf(native.graph_state, leaf.name, leaf.dtype, leaf.shape)
            else:
                numbers[id(leaf)] = builder.leaf(native.graph_input, f"in{index}", leaf.dtype, leaf.shape)
        return numbers

    def run(self, leaves):
        """leaves: those of the expression, of the same shapes and types as when it was compiled. Returns arrays."""
        if self.handle is None:
            raise native.InvalidError(f"the context of device {self.session.id} was closed")
        handle, error, bound = self.handle, native.error_buffer(), self._bound
        for index, leaf in enumerate(leaves):
            if leaf.is_state:
                if leaf._session is not self.session:
                    leaf.place(self.session)
                if leaf._dirty:
                    leaf.ready(self.session)
                continue
            data = leaf._data
            # What nobody else can change need not be written twice.
            if data is bound[index] and leaf._own:
                continue
            bound[index] = data if leaf._own else None
            if data.size:
                self._give(index, data, error)
        status = native.executable_run(handle, error)
        if status:
            raise native.failure(status)
        results = []
        for number, (shape, dtype) in zip(self._results, self.outputs):
            array = np.empty(shape, dtype.numpy)
            if array.size:
                status = native.executable_read(handle, number, array.__array_interface__["data"][0], array.nbytes,
                                                error)
                if status:
                    raise native.failure(status)
            results.append(array)
        if self.written:
            now = next(sequence)
            for state in self.written:
                state.written = now
        return results

    def _give(self, index, data, error):
        """A leaf's value: where the device reads memory of the host, it is not copied, and lives until the run has ended or,
        if it is bound, until there is another."""
        where = data.__array_interface__["data"][0]
        if self._lends:
            if not native.executable_lend(self.handle, self._handles[index], where, data.nbytes, error):
                return
            self._lends = bool(where % data.itemsize)  # an array at an odd address is no reason to copy the others
        status = native.executable_write(self.handle, self._handles[index], where, data.nbytes, error)
        if status:
            raise native.failure(status)

    def statistics(self):
        """What the program is made of: nodes, parts, cpu_nodes, arena_bytes and more."""
        stats = native.ExecutableStats()
        with self.session.context.use():
            native.check(native.executable_inspect(self.handle, stats, native.error_buffer()))
        return {name: getattr(stats, name) for name, _ in stats._fields_ if name != "size"}

    def close(self):
        """Within `use` of its context."""
        handle, self.handle = self.handle, None
        self._bound = []
        if handle is not None:
            native.executable_destroy(handle)

    def __del__(self):
        handle = getattr(self, "handle", None)
        if handle is not None and self.session.handle is not None:
            self.session.context.discard(native.executable_destroy, handle)


def session_of(context, leaves, nodes_device, device):
    """The session on which an expression runs: that which is named, that of its tensors, or that of its states."""
    if device is None:
        device = nodes_device
    if device is None:
        for leaf in leaves:
            if leaf.is_state and leaf._session is not None and leaf._session.handle is not None and \
                    leaf._session.context is context:
                return leaf._session
    session = context.session(device)
    session.check_open()
    return session


class Trace(threading.local):
    """Of a thread. current: the function that it is compiling, or None; gradients: how many gradients it is building,
    during which compiled functions give their operations in place of values; deferred: None, or a list of writes to
    states that one run is to do together; wanted: weak references to tensors that the next such run computes as well,
    because they depend on what it writes."""

    def __init__(self):
        self.current = None
        self.gradients = 0
        self.deferred = None
        self.wanted = []


trace = Trace()


class Changes:
    """How often something was changed that compiled functions may have been made from: parameters, modules, modes."""

    count = 0
