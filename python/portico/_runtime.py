"""Contexts, devices and sessions: what the rest of the package runs on."""
import ctypes
import os
import threading
import weakref
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass

from portico import _native as native

PROGRAMS = 512  # most programs that a session keeps for expressions evaluated outside of @portico.function

_current = threading.local()  # .devices: of `with portico.device(...)`; .contexts: of `with portico.Context()`

TYPES = ("cpu", "discrete", "integrated", "virtual", "software", "other")


@dataclass(frozen=True)
class Device:
    """A device of this machine. `id` is what `device=` and PORTICO_BACKEND call it, as any part of its name does."""

    id: str
    name: str
    type: str
    driver: str
    platform: str
    aliases: tuple
    memory: int
    preferred: bool

    def __str__(self):
        return self.id


class Opened:
    """Something of C that lives on a context: given back by close(), at the end of `with`, or once nothing refers to it.
    Subclasses set `_context` and `handle`, and say what is to be given back."""

    handle = None
    _held = None  # a method: (function, its argument) that give back all that is held

    def _open(self):
        if self.handle is None:
            raise native.InvalidError("this model was closed")
        return self.handle

    def _close(self):
        if self.handle is not None:
            destroy, held = self._held()
            self.handle = None
            destroy(held)

    def close(self):
        """Gives back its memory. Later calls say that it is closed."""
        if self.handle is not None:
            with self._context.use():
                self._close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if self.handle is not None and self._context.handle is not None:
            self._context.discard(*self._held())


def _text(value):
    return value.decode("utf-8", "replace")


class Session:
    """A device that was opened, and what lives on it."""

    def __init__(self, context, spec):
        self.context = context
        self.handle = ctypes.c_void_p()
        text = None if spec is None else native.encoded(spec, "device")
        native.check(native.session_open(context.handle, text, self.handle, native.error_buffer()))
        self.id = _text(native.session_device_id(self.handle))
        self.programs = OrderedDict()  # of expressions, the one used last at the end
        self.alive = weakref.WeakSet()  # programs that have not been closed
        self.on_cpu = native.session_device(self.handle).contents.type == 0

    def check_open(self):
        if self.handle is None:
            raise native.InvalidError(f"the context of device {self.id} was closed")

    def keep(self, key, program):
        self.programs[key] = program
        if len(self.programs) > PROGRAMS:
            self.programs.popitem(last=False)[1].close()

    def memory(self):
        """Bytes that are held on the device now, and the most that ever were."""
        peak = ctypes.c_uint64()
        return native.session_memory(self.handle, peak), peak.value

    def close(self):
        if self.handle is None:
            return
        self.programs.clear()
        for program in list(self.alive):
            program.close()
        handle, self.handle = self.handle, None  # from now on nothing of it is discarded
        self.context._bury()
        native.session_close(handle)


class Context:
    """The plugins and devices of this machine, and the sessions that were opened on them.

    There is one for everybody, made when it is first needed; more are for programs that close one, or that give another
    backend or log to a part of themselves: `with portico.Context(backend="cpu"): ...`.

    backend: as PORTICO_BACKEND, which it goes before.
    log: called with (level, line), level being "error", "warning", "info" or "debug"; None: lines go to standard error.

    Threads may share a context: calls wait for each other. A callback must not call what it is called by.
    """

    def __init__(self, backend=None, log=None):
        self._lock = threading.Lock()
        self._owner = None
        self._process = os.getpid()
        self._dead = []  # programs whose owner is gone, to be destroyed by the next call
        self._sessions = {}
        self._models = weakref.WeakSet()
        self.suspended = None  # what a call in C waits for that only its caller can do, in words
        self.handle = ctypes.c_void_p()
        params = native.ContextParams()
        if backend is not None:
            params.backend = native.encoded(backend, "backend")
        if log is not None:
            self._log = native.LOG(self._logger(log))  # lives as long as C may call it
            params.log = self._log
        native.check(native.context_create(params, self.handle, native.error_buffer()))

    @staticmethod
    def _logger(log):
        names = ("error", "warning", "info", "debug")

        def call(_, level, line):
            log(names[level] if 0 <= level < len(names) else str(level), _text(line))
        return call

    # Python may run a finaliser, and so free a program, in any thread at any time: it is only noted there.
    def discard(self, destroy, handle):
        self._dead.append((destroy, handle))

    def _bury(self):
        while self._dead:
            destroy, handle = self._dead.pop()
            destroy(handle)

    @contextmanager
    def use(self):
        """Around calls into C. One thread at a time; a callback that comes back here is told so."""
        me = threading.get_ident()
        if self._owner == me:
            raise native.InvalidError("this was called from a callback of a call that still runs; return from it first")
        if self.suspended:
            raise native.InvalidError(self.suspended)
        with self._lock:
            if self.handle is None:
                raise native.InvalidError("this context was closed")
            self._owner = me
            try:
                if self._dead:
                    self._bury()
                yield self
            finally:
                self._owner = None

    def devices(self):
        """The devices of this machine, as portico.devices() gives them."""
        with self.use():
            count = native.context_devices(self.handle, None, 0)
            found = (native.DeviceDescription * max(count, 1))()
            found[0].size = ctypes.sizeof(native.DeviceDescription)
            count = min(native.context_devices(self.handle, found, count), count)
        return [Device(_text(d.id), _text(d.info.name), TYPES[d.info.type] if d.info.type < len(TYPES) else "other",
                       _text(d.info.driver), _text(d.info.platform), tuple(_text(d.info.aliases).split()),
                       d.info.memory, bool(d.preferred)) for d in found[:count]]

    def plugins(self):
        """[(name, path, why it cannot be used or "")]"""
        with self.use():
            count = native.context_plugins(self.handle, None, 0)
            found = (native.PluginDescription * max(count, 1))()
            found[0].size = ctypes.sizeof(native.PluginDescription)
            count = min(native.context_plugins(self.handle, found, count), count)
        return [(_text(p.name), _text(p.path), _text(p.reason)) for p in found[:count]]

    def session(self, spec):
        """The session on a device, opened when it is first asked for; None: the device that is used when none is named.
        To be called within `use`."""
        session = self._sessions.get(spec)
        if session is None:
            session = Session(self, spec)
            same = self._sessions.get(session.id)
            if same is not None and same is not session:
                session.close()
                session = same
            self._sessions[session.id] = self._sessions[spec] = session
        return session

    def close(self):
        """Gives back everything. What was made with it says that it is closed when it is used."""
        if self.handle is None:
            return
        with self.use():
            for model in list(self._models):
                model._close()
            for session in set(self._sessions.values()):
                session.close()
            self._sessions.clear()
            self._bury()
            handle, self.handle = self.handle, None
            native.context_destroy(handle)

    def __enter__(self):
        if not hasattr(_current, "contexts"):
            _current.contexts = []
        _current.contexts.append(self)
        return self

    def __exit__(self, *_):
        _current.contexts.remove(self)
        self.close()

    def __repr__(self):
        return "<portico.Context, closed>" if self.handle is None else "<portico.Context>"


_default = None
_default_lock = threading.Lock()


def context():
    """The one of the innermost `with portico.Context()`, or everybody's."""
    stack = getattr(_current, "contexts", None)
    if stack:
        return stack[-1]
    global _default
    with _default_lock:
        if _default is None or _default.handle is None or _default._process != os.getpid():
            _default = Context()
        return _default


def devices():
    """The devices of this machine, those of all plugins: [portico.Device]."""
    return context().devices()


class device:
    """`with portico.device("vulkan"): ...` computes there what names no other device. The words are those of
    PORTICO_BACKEND: "BACKEND[:WHICH][+...][,...]", where WHICH is a number or any part of a name."""

    def __init__(self, spec):
        self.spec = device_spec(spec)

    def __enter__(self):
        if not hasattr(_current, "devices"):
            _current.devices = []
        _current.devices.append(self.spec)
        return self

    def __exit__(self, *_):
        _current.devices.pop()


def device_spec(spec):
    """The words for a device that were given as words, a portico.Device, or None."""
    if spec is None or isinstance(spec, str):
        return spec
    if isinstance(spec, Device):
        return spec.id
    raise TypeError(f"device is {type(spec).__name__}, and must be str, portico.Device or None")


def current_device():
    """The words of the innermost `with portico.device(...)`, or None."""
    stack = getattr(_current, "devices", None)
    return stack[-1] if stack else None


def close():
    """Closes the context that is used when none is named, with all devices. The next call opens another one."""
    global _default
    with _default_lock:
        if _default is not None:
            _default.close()
            _default = None
