"""Modules: parameters, and what is computed with them."""
from collections import OrderedDict, namedtuple

import numpy as np

from portico import _graph, _native as native
from portico._tensor import State, Tensor, asarray, tensor


class Parameter(State):
    """A tensor that training changes: its memory is the device's, optimisers write it in place, and gradients are
    taken for it.

    data: its first value. requires_grad: whether gradients are wanted. grad: what backward() added, or None.
    """

    __slots__ = ("requires_grad",)

    def __init__(self, data, requires_grad=True, dtype=None, device=None, label=None):
        super().__init__(data, dtype, device, label or "parameter")
        if requires_grad and not self.dtype.is_float:
            raise native.InvalidError(f"a parameter of type {self.dtype} has no gradient; requires_grad=False")
        self.requires_grad = requires_grad

    def requires_grad_(self, requires_grad=True):
        """Whether gradients are wanted; False freezes the parameter."""
        self.requires_grad = bool(requires_grad)
        _graph.Changes.count += 1
        return self

    def __repr__(self):
        return "Parameter" + super().__repr__()[len("portico.State"):]

    def __reduce__(self):
        return type(self), (self.numpy(), self.requires_grad, self.dtype.name, None, self.label)

    def __deepcopy__(self, memo):
        return type(self)(self.numpy(), self.requires_grad, self.dtype, self._device, self.label)


class Loaded(namedtuple("Loaded", ("missing_keys", "unexpected_keys"))):
    """What load_state_dict(strict=False) left out."""

    __slots__ = ()


class Module:
    """What all parts of models have in common; as torch.nn.Module.

    A part of a model derives from this, makes its parameters and smaller modules in __init__ (after super().__init__())
    as attributes, and computes in forward(). Whoever calls the module calls that.

        class Residual(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.norm = nn.LayerNorm(width)
                self.linear = nn.Linear(width, width)

            def forward(self, x):
                return x + self.linear(self.norm(x))

    A compiled function notices when a module that it was made from gets another parameter or module, or changes between
    training and use; other attributes are constants of it.
    """

    training = True

    def __init__(self):
        object.__setattr__(self, "_parameters", {})
        object.__setattr__(self, "_buffers", {})
        object.__setattr__(self, "_modules", {})
        object.__setattr__(self, "training", True)

    def forward(self, *args, **keywords):
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args, **keywords):
        now = _graph.trace.current
        if now is not None:
            now.guard(self, "training", self.training)
        return self.forward(*args, **keywords)

    # ---- attributes ----

    def _tables(self):
        try:
            return self.__dict__["_parameters"], self.__dict__["_buffers"], self.__dict__["_modules"]
        except KeyError:
            raise AttributeError(f"{type(self).__name__}.__init__ must call super().__init__() first") from None

    def __setattr__(self, name, value):
        parameters, buffers, modules = self._tables()
        home = parameters if isinstance(value, Parameter) else modules if isinstance(value, Module) else None
        if home is None:
            for table in (parameters, buffers, modules):
                if name in table:
                    if value is None or (table is buffers and isinstance(value, Tensor)):
                        home = table
                        break
                    raise TypeError(f"{type(self).__name__}.{name} is {type(table[name]).__name__}, and cannot become "
                                    f"{type(value).__name__}")
        if home is None:
            object.__setattr__(self, name, value)
        else:
            for table in (parameters, buffers, modules, self.__dict__):
                if table is not home:
                    table.pop(name, None)
            home[name] = value
            if isinstance(value, Parameter) and value.label == "parameter":
                value.label = name
        _graph.Changes.count += 1

    def __getattr__(self, name):
        for table in self._tables():
            if name in table:
                now = _graph.trace.current
                if now is not None:
                    now.guard(self, name, table[name])
                return table[name]
        raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")

    def __delattr__(self, name):
        for table in self._tables():
            if name in table:
                del table[name]
                break
        else:
            object.__delattr__(self, name)
        _graph.Changes.count += 1

    def __dir__(self):
        return sorted({*object.__dir__(self), *self._parameters, *self._buffers, *self._modules})

    def __getstate__(self):
        return self.__dict__.copy()

    def __setstate__(self, state):
        self.__dict__.update(state)

    def register_parameter(self, name, parameter):
        """As self.name = parameter; None keeps the name free."""
        if parameter is None:
            self._parameters[name] = None
        else:
            setattr(self, name, parameter)

    def register_buffer(self, name, value, persistent=True):
        """A tensor that belongs to the module and is not trained. persistent: it is in state_dict()."""
        self._buffers[name] = value if value is None or isinstance(value, Tensor) else tensor(value)
        object.__setattr__(self, "_transient", getattr(self, "_transient", frozenset()) -
                           ({name} if persistent else set()) | (set() if persistent else {name}))

    def add_module(self, name, module):
        """As setattr, for names that are no words."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is no portico.nn.Module")
        self._modules[name] = module
        _graph.Changes.count += 1

    register_module = add_module

    # ---- what is in it ----

    def named_modules(self, memo=None, prefix=""):
        """(name, module) of this one and all within it, each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self):
        """This module and all within it."""
        return (module for _, module in self.named_modules())

    def named_children(self):
        """(name, module) of the modules directly in this one."""
        return ((name, module) for name, module in self._modules.items() if module is not None)

    def children(self):
        """The modules directly in this one."""
        return (module for _, module in self.named_children())

    def _named(self, table, prefix, recurse, once=True):
        seen = set()
        modules = self.named_modules(prefix=prefix) if recurse and once else \
            _all_modules(self, prefix) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in getattr(module, table).items():
                if value is None or (once and value in seen):
                    continue
                seen.add(value)
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(name, parameter) of all parameters, each once."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """All parameters, each once."""
        return (x for _, x in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """(name, tensor) of all buffers."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """All buffers."""
        return (x for _, x in self.named_buffers(recurse=recurse))

    def get_submodule(self, target):
        """The module of a name with dots. Errors: AttributeError."""
        module = self
        for name in target.split(".") if target else ():
            module = getattr(module, name)
        return module

    def get_parameter(self, target):
        """The parameter of a name with dots. Errors: AttributeError."""
        path, _, name = target.rpartition(".")
        return getattr(self.get_submodule(path), name)

    # ---- changing it ----

    def apply(self, function):
        """Calls function(module) for all modules within, then for this one. Returns the module."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    def train(self, mode=True):
        """In training, dropout drops. Returns the module."""
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        _graph.Changes.count += 1
        return self

    def eval(self):
        """In use: dropout does nothing. Returns the module."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """For all parameters: whether gradients are wanted. Returns the module."""
        for x in self.parameters():
            x.requires_grad_(requires_grad)
        return self

    def zero_grad(self):
        """Forgets the gradients of all parameters."""
        clear_gradients(self.parameters())

    def to(self, target):
        """Moves parameters and buffers to another device (its words), or gives those of floats another type. Returns the
        module."""
        from portico import _dtypes

        device = _dtypes.is_device(target)
        for x in self.parameters():
            if device or x.dtype.is_float:
                x.to(target)
        for module in self.modules():
            for name, x in module._buffers.items():
                if x is not None and (device or x.dtype.is_float):
                    module._buffers[name] = x.to(target)
        _graph.Changes.count += 1
        return self

    # ---- its values ----

    def state_dict(self):
        """{name: tensor} of all parameters and buffers as they are now. np.savez(file, **module.state_dict()) writes
        them."""
        found = OrderedDict()
        for name, x in self._stored():
            found[name] = tensor(x.numpy(), x.dtype)
        return found

    def _stored(self):
        yield from self.named_parameters(remove_duplicate=False)
        for path, module in _all_modules(self, ""):
            for name, x in module._buffers.items():
                if x is not None and name not in getattr(module, "_transient", ()):
                    yield (f"{path}.{name}" if path else name), x

    def load_state_dict(self, state_dict, strict=True):
        """Takes over values by their names: tensors, arrays, or tensors of another library, as torch's state_dict() has.

        strict: names that are missing, or too many, are an error. Returns (missing_keys, unexpected_keys).
        Errors: InvalidError listing names and shapes that do not fit; then nothing has changed.
        """
        own = OrderedDict(self._stored())
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict.keys() if name not in own]
        wrong = []
        if strict and missing:
            wrong.append(f"missing: {', '.join(missing)}")
        if strict and unexpected:
            wrong.append(f"not in the model: {', '.join(unexpected)}")
        values = {}
        for name, x in own.items():
            if name in missing:
                continue
            value = state_dict[name]
            values[name] = value = value if isinstance(value, Tensor) else asarray(value)
            if value.shape != x.shape:
                wrong.append(f"{name} has the shape {x.shape}, and the value {value.shape}")
        if wrong:
            raise native.InvalidError(f"the values do not fit {type(self).__name__}: {'; '.join(wrong)}")
        for name, value in values.items():
            x = own[name]
            if x.is_state:
                x.assign(value)
            else:
                path, _, last = name.rpartition(".")
                self.get_submodule(path)._buffers[last] = tensor(np.array(value.numpy()), x.dtype)
        _graph.Changes.count += 1
        return Loaded(missing, unexpected)

    # ---- printing ----

    def extra_repr(self):
        """What is said of a module in its line."""
        return ""

    def __repr__(self):
        lines, repeated = [], []
        for name, module in self._modules.items():
            text = repr(module).replace("\n", "\n  ")
            if repeated and repeated[-1][1] == text and name.isdigit():
                repeated[-1][0].append(name)
            else:
                repeated.append(([name], text))
        for names, text in repeated:
            lines.append(f"({names[0]}): {text}" if len(names) == 1 else
                         f"({names[0]}-{names[-1]}): {len(names)} x {text}")
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(lines) + "\n)"


def _all_modules(module, prefix):
    """(name, module), also of those that are there twice."""
    yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            yield from _all_modules(child, f"{prefix}.{name}" if prefix else name)


def clear_gradients(parameters):
    tracing = _graph.trace.current
    for x in parameters:
        if tracing is not None:
            tracing.gradient_of(x)
        x.grad = None


class Sequential(Module):
    """Modules one after the other: each gets what the one before returned. As torch.nn.Sequential: modules, or one
    OrderedDict of them."""

    def __init__(self, *modules):
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], dict) else \
            ((str(i), module) for i, module in enumerate(modules))
        for name, module in named:
            self.add_module(name, module)

    @property
    def _items(self):
        return tuple(self._modules.values())

    def _all(self):
        now = _graph.trace.current
        if now is not None:
            now.guard(self, "_items", self._items)
        return self._items

    def forward(self, x):
        for module in self._all():
            x = module(x)
        return x

    def append(self, module):
        """One more at the end."""
        self.add_module(str(len(self._modules)), module)
        return self

    def __iter__(self):
        return iter(self._all())

    def __len__(self):
        return len(self._modules)

    def __getitem__(self, index):
        found = self._all()[index]
        return type(self)(*found) if isinstance(index, slice) else found

    def __setitem__(self, index, module):
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} modules, and none {index}")
        self.add_module(list(self._modules)[index], module)


class ModuleList(Sequential):
    """A list of modules, whose parameters belong to whoever has the list. As torch.nn.ModuleList."""

    def __init__(self, modules=()):
        super().__init__(*modules)

    def forward(self, *_, **__):
        raise NotImplementedError("a ModuleList has no forward(); call the modules in it")

    def extend(self, modules):
        """More at the end."""
        for module in modules:
            self.append(module)
        return self

    def __getitem__(self, index):
        found = self._all()[index]
        return type(self)(found) if isinstance(index, slice) else found
