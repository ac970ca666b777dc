"""Models: text in, text out."""
import ctypes
import json
import os
import queue
import threading
from dataclasses import dataclass

import numpy as np

from portico import _native as native, _progress, _runtime

STOP_REASONS = ("end", "max_tokens", "context", "callback", "stop")


@dataclass(frozen=True)
class Stats:
    """What generating took: tokens, seconds, and why it ended ("end", "max_tokens", "context", "callback" or "stop")."""

    stop_reason: str
    prompt_tokens: int
    prompt_seconds: float
    generated_tokens: int
    generation_seconds: float


def _destroy(held):
    talk, handle = held
    if talk is not None:
        native.sequence_destroy(talk)
    native.model_close(handle)


class Model(_runtime.Opened):
    """A model that portico.load opened on a device. Calls of several threads wait for each other; close() or `with` gives
    its memory back."""

    def __init__(self, path, device=None, context_length=0, progress=None):
        path = os.fspath(path)
        bar = None
        if progress is None or isinstance(progress, bool):
            bar = _progress.Bar(f"loading {os.path.basename(os.path.normpath(path))}") if _progress.wanted(progress) else None
            progress = bar and (lambda share: bar.update(round(100 * share), 100))
        self._context = context = _runtime.context()
        self.handle = None
        self._talk = None  # the sequence of chat()
        self.last_stats = None
        raised = []

        def call(_, share):
            try:
                return int(bool(progress(share)))
            except BaseException as error:  # C knows no exceptions: raised again below
                raised.append(error)
                return 1
        params = native.ModelParams(context_length=int(context_length))
        device = _runtime.device_spec(device) or _runtime.current_device()
        if device is not None:
            params.device = native.encoded(device, "device")
        if progress is not None:
            params.progress = native.PROGRESS(call)
        handle = ctypes.c_void_p()
        try:
            with context.use():
                status = native.model_open(context.handle, native.encoded(path, "path"), params, handle,
                                           native.error_buffer())
                if raised:
                    raise raised[0]
                native.check(status)
                self.handle = handle
                context._models.add(self)
        finally:
            if bar:
                bar.close()

    def _forget(self):
        """Gives the cache of chat() back, for what needs it."""
        talk, self._talk = self._talk, None
        if talk is not None:
            native.sequence_destroy(talk)

    def _held(self):
        talk, self._talk = self._talk, None
        return _destroy, (talk, self.handle)

    @property
    def info(self):
        """architecture, device, vocab_size, context_length, layers, width, parameters and bytes of memory: a dict."""
        info = native.ModelInfo()
        with self._context.use():
            native.model_describe(self._open(), info)
        return {name: value.decode() if isinstance(value, bytes) else value
                for name, value in ((n, getattr(info, n)) for n, _ in info._fields_ if n != "size")}

    def encode(self, text, special=True):
        """The ids of a prompt; with `special`, BOS in front or EOS behind as the model wants it."""
        data = native.encoded(text, "text")
        ids, count = native._ids(), ctypes.c_size_t()
        with self._context.use():
            native.check(native.model_tokenize(self._open(), data, len(data), int(bool(special)), ids, count,
                                               native.error_buffer()))
            try:
                return ids[:count.value]
            finally:
                native.free(ctypes.cast(ids, ctypes.c_void_p))

    def decode(self, ids):
        """The text of ids; bytes that are no whole character become U+FFFD."""
        ids = [int(i) for i in ids]
        array = (ctypes.c_int32 * max(len(ids), 1))(*ids)
        text, count = ctypes.c_void_p(), ctypes.c_size_t()
        with self._context.use():
            native.check(native.model_detokenize(self._open(), array, len(ids), text, count, native.error_buffer()))
            try:
                return ctypes.string_at(text, count.value).decode("utf-8", "replace")
            finally:
                native.free(text)

    def logits(self, ids):
        """float32 [len(ids), vocab_size]; row i is for the token that follows ids[0] .. ids[i] (decoder-only)."""
        ids = [int(i) for i in ids]
        if not ids:
            raise native.InvalidError("logits of no ids")
        array = (ctypes.c_int32 * len(ids))(*ids)
        result = np.empty((len(ids), self.info["vocab_size"]), np.float32)
        with self._context.use():
            self._forget()
            native.check(native.model_logits(self._open(), array, len(ids), result.ctypes.data, native.error_buffer()))
        return result

    def generate(self, prompt, *, max_tokens=0, temperature=0.0, top_k=0, top_p=0.0, seed=0, echo=False, prefix=None,
                 progress=False):
        """Continues a prompt, or answers a source: an iterator of pieces of text; "".join(...) has it whole.

        max_tokens: 0: as many as the context holds. temperature: 0: always the likeliest token. top_k, top_p: 0: no limit.
        seed: the same gives the same text on the same device. prefix: what the answer of an encoder-decoder begins with.
        progress: a bar on stderr, which counts pieces of text; None: where that is a terminal.
        Closing the iterator, or leaving its loop, ends generating. Afterwards last_stats has tokens and seconds.
        Errors: InvalidError for parameters out of range, and for a prompt longer than the context.
        """
        self._open()
        params = native.GenerateParams(max_tokens=int(max_tokens), temperature=float(temperature), top_k=int(top_k),
                                       top_p=float(top_p), seed=int(seed), echo=int(bool(echo)))
        if prefix is not None:
            params.prefix = native.encoded(prefix, "prefix")
        prompt = native.encoded(prompt, "prompt")

        def run(*rest):
            self._forget()
            return native.model_generate(self._open(), prompt, params, *rest)
        pieces = self._pieces(run)
        if progress is not False and _progress.wanted(progress):
            return _progress.progress(pieces, max_tokens or None, "generating", "pieces")
        return pieces

    def _chat_params(self, messages, template, variables, complete):
        params = native.ChatParams(complete=int(complete))
        params.variables = json.dumps({**variables, "messages": list(messages)}).encode()
        if template is not None:
            params.source = native.encoded(template, "template")
        return params

    def chat_text(self, messages, *, template=None, complete=False, **variables):
        """Messages, [{"role": "user", "content": "..."}, ...], as the model's chat template writes them: a string.

        template: Jinja, instead of the model's own. complete: no answer is begun behind them. Other arguments (tools,
        enable_thinking ...) are variables of the template. Errors: NotFoundError without a template; InvalidError and
        UnsupportedError by the template's line.
        """
        params = self._chat_params(messages, template, variables, complete)
        text, count = ctypes.c_void_p(), ctypes.c_size_t()
        with self._context.use():
            native.check(native.chat_render(self._open(), None, 0, params, text, count, native.error_buffer()))
            try:
                return ctypes.string_at(text, count.value).decode("utf-8", "replace")
            finally:
                native.free(text)

    def chat(self, messages, *, template=None, max_tokens=0, temperature=0.0, top_k=0, top_p=0.0, seed=0, **variables):
        """Answers messages: an iterator of pieces of text, as generate's. Decoder-only.

            talk = [{"role": "user", "content": "Why is the sea salty?"}]
            talk.append({"role": "assistant", "content": "".join(model.chat(talk))})

        What the model has read of a talk stays on the device until the next call of generate or logits. template and
        variables: as chat_text's. Errors: those, and as generate's.
        """
        self._open()
        chat = self._chat_params(messages, template, variables, False)
        params = native.GenerateParams(max_tokens=int(max_tokens), temperature=float(temperature), top_k=int(top_k),
                                       top_p=float(top_p), seed=int(seed))

        def run(*rest):
            if self._talk is None:
                talk = ctypes.c_void_p()
                native.check(native.sequence_create(self._open(), talk, native.error_buffer()))
                self._talk = talk
            return native.chat_answer(self._talk, None, 0, chat, params, *rest)
        return self._pieces(run)

    def _pieces(self, run):
        # C hands out text through a callback, which waits in a thread of its own until the next piece is wanted: no more
        # is computed than is asked for.
        pieces, wanted, failed = queue.SimpleQueue(), threading.Semaphore(0), []
        ended = threading.Event()
        stats = native.GenerateStats()

        def text(_, data, count):
            self._context.suspended = "a text is being generated here; take it to its end or close its iterator first, or " \
                                      "use another portico.Context"
            pieces.put(ctypes.string_at(data, count))
            wanted.acquire()
            self._context.suspended = None
            return int(ended.is_set())

        def work():
            try:
                callback = native.TEXT(text)
                with self._context.use():
                    native.check(run(callback, None, stats, native.error_buffer()))
            except BaseException as error:  # raised where the pieces are taken
                failed.append(error)
            finally:
                pieces.put(None)
        import codecs

        decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may come in several pieces
        thread = threading.Thread(target=work, name="portico.generate", daemon=True)
        thread.start()
        try:
            while True:
                piece = pieces.get()
                if piece is None:
                    break
                decoded = decoder.decode(piece)
                if decoded:
                    yield decoded
                wanted.release()
            rest = decoder.decode(b"", True)
            if rest and not failed:
                yield rest
        finally:
            ended.set()
            wanted.release()
            thread.join()
            if not failed:
                self.last_stats = Stats(STOP_REASONS[stats.stop_reason], stats.prompt_tokens, stats.prompt_seconds,
                                        stats.generated_tokens, stats.generation_seconds)
        if failed:
            raise failed[0]

    def __repr__(self):
        if self.handle is None:
            return "<portico.Model, closed>"
        info = self.info
        return f"<portico.Model {info['architecture']}, {info['parameters']} parameters, on {info['device']}>"


def load(path, *, device=None, context_length=0, progress=None):
    """Opens a model: a .gguf file, or a folder with config.json and model.safetensors.

        for piece in portico.load("model.gguf").generate("Once upon a time"):
            print(piece, end="")

    device: as in PORTICO_BACKEND; None: that of `with portico.device(...)`, or the best there is. context_length: most
    tokens of a sequence; 0: what the file says, at most 4096. progress: True or False: a bar on stderr; None: where that is
    a terminal; or a function that is called with a share between 0 and 1 while the model is opened, which cancels by
    returning something true (CancelledError).
    """
    return Model(path, device, context_length, progress)
