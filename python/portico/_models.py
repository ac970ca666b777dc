"""Models: text in, text out."""
import contextlib
import ctypes
import json
import os
import queue
import signal
import threading
from dataclasses import dataclass

import numpy as np

from portico import _images, _native as native, _progress, _runtime

STOP_REASONS = ("end", "max_tokens", "context", "callback", "stop")
CACHE_TYPES = {"f32": 0, "f16": 1, "q8_0": 5}  # pco_dtype
POOLINGS = {None: 0, "mean": 1, "cls": 2, "last": 3}  # pco_pooling
NORMALIZE = {None: 0, True: 1, False: -1}
EARLY_STOPPING = {False: 0, True: 1, "never": 2}  # pco_early_stopping


@dataclass(frozen=True)
class Stats:
    """What generating took: tokens, seconds, and why it ended ("end", "max_tokens", "context", "callback" or "stop"); how
    often the context was shifted; how many tokens a draft proposed, and how many of those are in the text; and how many of
    a prompt were copied from another one of a batch."""

    stop_reason: str
    prompt_tokens: int
    prompt_seconds: float
    generated_tokens: int
    generation_seconds: float
    context_shifts: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    shared_tokens: int = 0


def _stats(stats):
    return Stats(STOP_REASONS[stats.stop_reason], stats.prompt_tokens, stats.prompt_seconds, stats.generated_tokens,
                 stats.generation_seconds, stats.context_shifts, stats.drafted_tokens, stats.accepted_tokens, stats.shared_tokens)


@dataclass(frozen=True)
class Beam:
    """A text that beam search found: its ids without the token that ended it, log p of all its tokens in nats, that score
    after the length penalty, and why it ended ("end", "max_tokens" or "context")."""

    text: str
    ids: list
    score: float
    logprob: float
    stop_reason: str


@dataclass(frozen=True)
class Segment:
    """A piece of what was said: seconds from the beginning of the sound, its text (most begin with a space), its ids, the
    language ("en"; None for models of one), and log p of a token of its window in nats."""

    begin: float
    end: float
    text: str
    ids: list
    language: object
    logprob: float


@dataclass(frozen=True)
class Token:
    """A token that was generated, or might have been: its id, how the vocabulary spells it, log softmax(logits)[id] in nats
    (after penalties and before temperature), and the likeliest at its place, each without a `top` of its own."""

    id: int
    text: str
    logprob: float
    top: tuple = ()


def _choice(value, choices, what):
    try:
        return choices[value]
    except (KeyError, TypeError):
        names = ", ".join(repr(name) for name in choices)
        raise native.InvalidError(f"{what} is {value!r}, and must be one of {names}") from None


def _caught(raised, function, *arguments):
    """What a callback of C returns: 1 for something true, and for an exception, of which C knows none; it goes to `raised`."""
    try:
        return int(bool(function(*arguments) or raised))
    except BaseException as error:
        raised.append(error)
        return 1


def _nothing(*_):
    """A progress that nobody wants to see: where Ctrl-C is heard."""


@contextlib.contextmanager
def _calling(raised):
    """Around a call of C whose callbacks go through _caught: raises what they raised. Ctrl-C goes to `raised` as well, and so
    ends the call at the next of them; Python would raise it where the callback begins, and nobody hears of that."""
    usual = signal.default_int_handler
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is usual
    if ours:
        signal.signal(signal.SIGINT, lambda *_: raised.append(KeyboardInterrupt()))
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, usual)
    if raised:
        raise raised[0]


def _destroy(held):
    talk, handle = held
    if talk is not None:
        native.sequence_destroy(talk)
    native.model_close(handle)


class Model(_runtime.Opened):
    """A model that portico.load opened on a device. Calls of several threads wait for each other; close() or `with` gives
    its memory back."""

    def __init__(self, path, device=None, context_length=0, progress=None, adapter=None, cache_type="f32", sequences=0):
        path = os.fspath(path)
        bar = None
        if progress is None or isinstance(progress, bool):
            bar = _progress.Bar(f"loading {os.path.basename(os.path.normpath(path))}") if _progress.wanted(progress) else None
            progress = bar and (lambda share: bar.update(round(100 * share), 100))
        self._context = context = _runtime.context()
        self.handle = None
        self._talk = None  # the sequence of chat()
        self.last_stats = None
        self.last_tokens = None
        raised = []
        params = native.ModelParams(context_length=int(context_length), sequences=int(sequences),
                                    cache_type=_choice(cache_type, CACHE_TYPES, "cache_type"))
        device = _runtime.device_spec(device) or _runtime.current_device()
        if device is not None:
            params.device = native.encoded(device, "device")
        if adapter is not None:
            params.adapter = native.encoded(os.fspath(adapter), "adapter")
        params.progress = native.PROGRESS(lambda _, share: _caught(raised, progress or _nothing, share))
        handle = ctypes.c_void_p()
        try:
            with context.use():
                with _calling(raised):
                    status = native.model_open(context.handle, native.encoded(path, "path"), params, handle,
                                               native.error_buffer())
                    if not status:
                        self.handle = handle
                        context._models.add(self)
                native.check(status)
        finally:
            if bar:
                bar.close()

    def _forget(self):
        """Gives the cache of chat() back, for what needs it."""
        talk, self._talk = self._talk, None
        if talk is not None:
            native.sequence_destroy(talk)

    @staticmethod
    def _lend(draft, params):
        """A draft needs a sequence of its own for the time of a call."""
        if draft is not None:
            draft._forget()
            params.draft = draft._open()

    def _held(self):
        talk, self._talk = self._talk, None
        return _destroy, (talk, self.handle)

    @property
    def info(self):
        """architecture, device, vocab_size, context_length, layers, width, parameters, bytes of memory and cached_tokens (what
        a cache has room for now): a dict."""
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

    def _sampling(self, echo=False, *, max_tokens, temperature, top_k, top_p, min_p, typical_p, repetition_penalty,
                  presence_penalty, frequency_penalty, repeat_last_n, stop_strings, seed, context_shift, keep, logprobs,
                  grammar, json_schema, draft, draft_tokens):
        """GenerateParams, and where its tokens go."""
        params = native.GenerateParams(
            max_tokens=int(max_tokens), temperature=float(temperature), top_k=int(top_k), top_p=float(top_p),
            seed=int(seed), echo=int(bool(echo)), min_p=float(min_p), typical_p=float(typical_p),
            repeat_penalty=float(repetition_penalty), presence_penalty=float(presence_penalty),
            frequency_penalty=float(frequency_penalty), repeat_last_n=int(repeat_last_n),
            context_shift=int(bool(context_shift)), keep=int(keep), draft_tokens=int(draft_tokens))
        if grammar is not None:
            params.grammar = native.encoded(grammar, "grammar")
        if json_schema is not None:
            text = json_schema if isinstance(json_schema, str) else json.dumps(json_schema)
            params.json_schema = native.encoded(text, "json_schema")
        if draft is not None:
            if not isinstance(draft, Model):
                raise TypeError(f"draft is {type(draft).__name__}, and must be a portico.Model")
            draft._open()
        if stop_strings is not None:
            texts = [stop_strings] if isinstance(stop_strings, str) else list(stop_strings)
            params.stop = (ctypes.c_char_p * max(len(texts), 1))(*[native.encoded(t, "stop_strings") for t in texts])
            params.stop_count = len(texts)
        tokens = None
        if logprobs is not None:
            count = int(logprobs)
            if count < 0:
                raise native.InvalidError(f"logprobs is {count}, and says how many of the likeliest tokens to note: 0 or more")
            tokens = []

            def token(_, pointer):
                tokens.append(self._token(pointer.contents, count))
                return 0
            params.token = native.TOKEN(token)
        return params, tokens

    def _token(self, token, count):
        logits = np.ctypeslib.as_array(token.logits, (token.vocab_size,)).astype(np.float64)
        most = logits.max()
        logprobs = logits - (most + np.log(np.exp(logits - most).sum()))
        order = np.argsort(-logits, kind="stable")[:count]  # the lower id of equals first

        def made(id, top=()):
            size = ctypes.c_size_t()
            text = native.model_token(self.handle, id, size)
            spelled = ctypes.string_at(text, size.value).decode("utf-8", "replace") if text else ""
            return Token(int(id), spelled, float(logprobs[id]), top)
        return made(token.id, tuple(made(int(id)) for id in order))

    def generate(self, prompt, *, max_tokens=0, temperature=0.0, top_k=0, top_p=0.0, min_p=0.0, typical_p=0.0,
                 repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, repeat_last_n=0, stop_strings=None,
                 seed=0, echo=False, prefix=None, context_shift=False, keep=0, logprobs=None, grammar=None,
                 json_schema=None, draft=None, draft_tokens=0, progress=False):
        """Continues a prompt, or answers a source: an iterator of pieces of text; "".join(...) has it whole.

        max_tokens: 0: as many as the context holds. temperature: 0: always the likeliest token. seed: the same gives the
        same text on the same device. What is drawn from, each on what is left, 0: no limit: the top_k likeliest; those that
        have the share top_p together; those at least min_p times as likely as the likeliest; those whose -log p is nearest
        to the entropy, with the share typical_p. Before the temperature come penalties, on the last repeat_last_n tokens (0:
        all): repetition_penalty divides logits above 0 of tokens in prompt and text and multiplies the others;
        presence_penalty is taken from logits of tokens that were generated, frequency_penalty for each time. stop_strings:
        a string or several; the text ends before the first that comes. prefix: what the answer of an encoder-decoder begins
        with. context_shift: a decoder goes on where the context is full, without its older half; the first `keep` tokens
        stay. logprobs: 0 or more: afterwards last_tokens has a portico.Token for each token, with so many of the likeliest
        in `top`. grammar: in GBNF, llama.cpp's notation: the text is one of it, or the beginning of one where something
        else ends it. json_schema: the same from a JSON schema, as a dict or as text; keywords that are not known are
        UnsupportedError. draft: a Model of the same portico.Context and vocabulary, much faster, that proposes draft_tokens
        tokens at a time (0: 4), which this one reads in one run: the same text, sooner (decoder-only). progress: a bar on stderr, which counts pieces of text; None: where that is a terminal.
        Closing the iterator, or leaving its loop, ends generating. Afterwards last_stats has tokens and seconds.
        Errors: InvalidError for parameters out of range, and for a prompt longer than the context; FileError for a grammar,
        with the line; UnsupportedError for a schema's keyword.
        """
        self._open()
        params, tokens = self._sampling(
            echo, max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
            typical_p=typical_p, repetition_penalty=repetition_penalty, presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty, repeat_last_n=repeat_last_n, stop_strings=stop_strings, seed=seed,
            context_shift=context_shift, keep=keep, logprobs=logprobs, grammar=grammar, json_schema=json_schema,
            draft=draft, draft_tokens=draft_tokens)
        if prefix is not None:
            params.prefix = native.encoded(prefix, "prefix")
        prompt = native.encoded(prompt, "prompt")

        def run(*rest):
            self._forget()
            self._lend(draft, params)
            return native.model_generate(self._open(), prompt, params, *rest)
        pieces = self._pieces(run, tokens)
        if progress is not False and _progress.wanted(progress):
            return _progress.progress(pieces, max_tokens or None, "generating", "pieces")
        return pieces

    def generate_batch(self, prompts, *, max_tokens=0, temperature=0.0, top_k=0, top_p=0.0, min_p=0.0, typical_p=0.0,
                       repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, repeat_last_n=0,
                       stop_strings=None, seed=0, echo=False, prefix=None, context_shift=False, keep=0, grammar=None,
                       json_schema=None):
        """What generate writes for each of several prompts: a list of texts, in the order of the prompts.

        A decoder that was loaded with room for several sequences (portico.load's `sequences`) continues as many side by
        side, one token of each in one run, and reads what prompts have in common once (shared_tokens); the texts are those
        that each prompt would have alone, but for rounding. The arguments are generate's. Afterwards last_stats has the
        Stats of each, a list. Errors: as generate's, by the number of the prompt.
        """
        self._open()
        prompts = [native.encoded(p, "prompts") for p in ([prompts] if isinstance(prompts, str) else prompts)]
        params, _ = self._sampling(
            echo, max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
            typical_p=typical_p, repetition_penalty=repetition_penalty, presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty, repeat_last_n=repeat_last_n, stop_strings=stop_strings, seed=seed,
            context_shift=context_shift, keep=keep, logprobs=None, grammar=grammar, json_schema=json_schema, draft=None,
            draft_tokens=0)
        if prefix is not None:
            params.prefix = native.encoded(prefix, "prefix")
        count = len(prompts)
        texts, answers, raised = [bytearray() for _ in prompts], [None] * count, []

        def text(user, data, size):
            texts[user - 1] += ctypes.string_at(data, size)

        def answered(user, stats):
            answers[user - 1] = _stats(stats.contents)
        users = (ctypes.c_void_p * max(count, 1))(*range(1, count + 1))  # 0 would be NULL
        array = (ctypes.c_char_p * max(count, 1))(*prompts)
        with self._context.use():
            self._forget()
            with _calling(raised):
                status = native.model_generate_batch(
                    self._open(), array, count, params, native.TEXT(lambda *piece: _caught(raised, text, *piece)),
                    native.ANSWER(lambda *answer: _caught(raised, answered, *answer)), users, native.GenerateStats(),
                    native.error_buffer())
            native.check(status)
        self.last_stats, self.last_tokens = answers, None
        return [text.decode("utf-8", "replace") for text in texts]

    def beam_search(self, prompt, *, beams=4, returned=1, length_penalty=1.0, early_stopping=False, max_tokens=0, prefix=None,
                    progress=None):
        """The likeliest of several texts that are tried side by side, the best first: a list of `returned` portico.Beam.

        beams: 1 to 64. length_penalty: a text of n tokens scores log p / n^length_penalty. early_stopping: when the search
        ends: True: where `beams` texts have ended; False: where no text under way scores more, as long as it is, than the
        worst of those; "never": where none can come to. As in transformers. max_tokens and prefix: as generate's.
        progress: a function that is called before each token, with how many there are, and cancels by returning something
        true (CancelledError). Errors: as generate's.
        """
        self._open()
        beams, returned, length_penalty = int(beams), int(returned), float(length_penalty)
        if beams < 1 or returned < 1:
            raise native.InvalidError(f"beams is {beams} and returned is {returned}, and both are 1 or more")
        params = native.GenerateParams(max_tokens=int(max_tokens))
        if prefix is not None:
            params.prefix = native.encoded(prefix, "prefix")
        how = native.BeamParams(beams=beams, returned=returned, length_penalty=length_penalty or 1e-300,
                                early_stopping=_choice(early_stopping, EARLY_STOPPING, "early_stopping"))
        found, raised = [], []

        def receive(beam):
            text = ctypes.string_at(beam.text, beam.bytes).decode("utf-8", "replace") if beam.text else ""
            found.append(Beam(text, beam.ids[:beam.count], beam.score, beam.log_probability,
                              STOP_REASONS[beam.stop_reason]))
        how.progress = native.BEAM_PROGRESS(lambda _, tokens: _caught(raised, progress or _nothing, tokens))
        receiver = native.BEAM(lambda _, pointer: _caught(raised, receive, pointer.contents))
        stats = native.GenerateStats()
        prompt = native.encoded(prompt, "prompt")
        with self._context.use():
            self._forget()
            with _calling(raised):
                status = native.model_beam_search(self._open(), prompt, params, how, receiver, None, stats,
                                                  native.error_buffer())
            native.check(status)
        self.last_stats, self.last_tokens = _stats(stats), None
        return found

    def transcribe(self, sound, *, language=None, translate=False, timestamps=False, beams=1, length_penalty=1.0,
                   max_tokens=0, progress=None):
        """What is said in a sound: a list of portico.Segment; "".join(s.text for s in ...) has it whole. For Whisper.

        sound: the path of a WAV file, or an array of floats: mono, 16,000 in a second, full scale at 1. language: "en",
        "de" ...; None: the model finds out. translate: into English. timestamps: in pieces, as the model cuts them; a sound
        longer than 30 s is cut in any case. beams: texts tried side by side; 1: always the likeliest token. max_tokens: of
        a window of 30 s; 0: as many as the context holds. progress: a function that is called with the seconds that have
        been heard and all there are, and cancels by returning something true (CancelledError). Errors: UnsupportedError for
        a model that reads text; InvalidError for parameters; FileError and Error for a file.
        """
        self._open()
        params = native.TranscribeParams(translate=int(bool(translate)), timestamps=int(bool(timestamps)), beams=int(beams),
                                         length_penalty=float(length_penalty) or 1e-300,  # 0 would be 1
                                         max_tokens=int(max_tokens))
        if language is not None:
            params.language = native.encoded(language, "language")
        found, raised = [], []

        def receive(piece):
            text = ctypes.string_at(piece.text, piece.bytes).decode("utf-8", "replace")
            found.append(Segment(piece.begin, piece.end, text, piece.ids[:piece.count], piece.language.decode() or None,
                                 piece.log_probability))
        params.progress = native.SPEECH_PROGRESS(lambda _, *seconds: _caught(raised, progress or _nothing, *seconds))
        receiver = native.SPEECH(lambda _, pointer: _caught(raised, receive, pointer.contents))
        path = isinstance(sound, (str, os.PathLike))
        samples, count = ctypes.c_void_p(), ctypes.c_size_t()
        if path:
            native.check(native.sound_read(native.encoded(os.fspath(sound), "sound"), samples, count, native.error_buffer()))
        else:
            array = np.asarray(sound)
            if array.ndim != 1:
                raise native.InvalidError(f"sound has shape {array.shape}; it is one row of samples")
            if len(array) and not np.issubdtype(array.dtype, np.floating):
                raise native.InvalidError(f"sound is {array.dtype}; it is floats with full scale at 1 (of int16: sound / 32768)")
            array = np.ascontiguousarray(array, np.float32)
            samples, count = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(len(array))
        try:
            with self._context.use():
                self._forget()
                with _calling(raised):
                    status = native.model_transcribe(self._open(), samples, count, params, receiver, None, None,
                                                     native.error_buffer())
                native.check(status)
        finally:
            if path:
                native.free(samples)
        return found

    def _many(self, call, params, progress, rows, width):
        """Runs `call`, which fills `rows` rows of `width` numbers."""
        raised = []
        params.progress = native.EMBED_PROGRESS(lambda _, *counts: _caught(raised, progress or _nothing, *counts))
        made = np.zeros((rows, width), np.float32)
        with _calling(raised):
            status = call(params, made.ctypes.data, native.error_buffer())
        native.check(status)
        return made

    @staticmethod
    def _embed_params(pooling, normalize):
        return native.EmbedParams(pooling=_choice(pooling, POOLINGS, "pooling"),
                                  normalize=_choice(normalize, NORMALIZE, "normalize"))

    def embed(self, texts, *, pooling=None, normalize=None, progress=None):
        """Vectors of texts: an array f32 [count, width], or [width] of one text that is no list. Of any model that reads text.

        pooling: "mean", "cls" (the first token) or "last"; None: as the model's modules.json says, else the mean; of CLIP
        its projection. normalize: to length 1; None: as modules.json says. A text longer than the model reads is cut.
        progress: a function that is called with how many are done and all, and cancels by returning something true
        (CancelledError). Errors: UnsupportedError for a model that reads images alone.
        """
        single = isinstance(texts, str)
        data = [native.encoded(text, "text") for text in ([texts] if single else texts)]
        params, items = self._embed_params(pooling, normalize), (ctypes.c_char_p * max(len(data), 1))(*data)
        with self._context.use():
            handle = self._open()
            self._forget()
            made = self._many(lambda params, to, error: native.model_embed(handle, items, len(data), params, to, None, error),
                              params, progress, len(data), native.model_embedding_width(handle, 0, params.pooling))
        return made[0] if single else made

    def embed_images(self, images, *, pooling=None, normalize=None, progress=None):
        """Vectors of images: an array f32 [count, width], or [width] of one image that is no list. For ViT and CLIP, whose
        images and texts have vectors of one space.

        images: a path (PNG, JPEG, PPM), an array uint8 [height, width, 3] of RGB, or a list of either. pooling: None: CLIP's
        projection, ViT's pooler or its class token. The others: as embed's. Errors: UnsupportedError for a model that reads
        no images; FileError and Error for a file; InvalidError for an array.
        """
        params = self._embed_params(pooling, normalize)
        with self._context.use(), _images.Images(images) as read:
            handle = self._open()
            made = self._many(lambda *rest: native.model_embed_images(handle, read.items, read.count, *rest), params, progress,
                              read.count, native.model_embedding_width(handle, 1, params.pooling))
        return made[0] if read.single else made

    def _labels(self):
        """Of the model's own classifier; none without one."""
        names, count = ctypes.POINTER(ctypes.c_char_p)(), ctypes.c_size_t()
        native.check(native.model_labels(self._open(), names, count, native.error_buffer()))
        return [name.decode("utf-8", "replace") for name in names[:count.value]]

    def classify(self, images, labels=None, *, progress=None):
        """What images show: a list of dicts of labels and their probabilities, the likeliest first; one dict of one image
        that is no list.

        images: as embed_images'. labels: texts to choose among, for CLIP; None: those of the model's own classifier (ViT).
        Of labels with one name the likeliest counts.
        progress: as embed's. Errors: UnsupportedError for a model without classifier, or for labels where it reads no texts;
        as embed_images.
        """
        params = native.ClassifyParams()
        if labels is not None:
            labels = [labels] if isinstance(labels, str) else list(labels)
            params.labels = (ctypes.c_char_p * max(len(labels), 1))(*(native.encoded(label, "label") for label in labels))
            params.label_count = len(labels)
        with self._context.use(), _images.Images(images) as read:
            handle = self._open()
            self._forget()
            names = self._labels() if labels is None else labels
            scores = self._many(lambda *rest: native.model_classify(handle, read.items, read.count, *rest), params, progress,
                                read.count, max(len(names), 1))
        # the least likely first: what comes later takes the place of what has the same name
        found = [{names[i]: float(row[i]) for i in np.argsort(-row, kind="stable")[::-1]} for row in scores]
        found = [dict(sorted(labels.items(), key=lambda item: -item[1])) for labels in found]
        return found[0] if read.single else found

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

    def chat(self, messages, *, template=None, max_tokens=0, temperature=0.0, top_k=0, top_p=0.0, min_p=0.0,
             typical_p=0.0, repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, repeat_last_n=0,
             stop_strings=None, seed=0, context_shift=False, keep=0, logprobs=None, grammar=None, json_schema=None,
             draft=None, draft_tokens=0, **variables):
        """Answers messages: an iterator of pieces of text, as generate's. Decoder-only.

            talk = [{"role": "user", "content": "Why is the sea salty?"}]
            talk.append({"role": "assistant", "content": "".join(model.chat(talk))})

        What the model has read of a talk stays on the device until the next call of generate or logits. template and
        variables: as chat_text's; the others: as generate's. Errors: those, and as generate's.
        """
        self._open()
        chat = self._chat_params(messages, template, variables, False)
        params, tokens = self._sampling(
            max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical_p,
            repetition_penalty=repetition_penalty, presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty, repeat_last_n=repeat_last_n, stop_strings=stop_strings, seed=seed,
            context_shift=context_shift, keep=keep, logprobs=logprobs, grammar=grammar, json_schema=json_schema,
            draft=draft, draft_tokens=draft_tokens)

        def run(*rest):
            self._lend(draft, params)
            if self._talk is None:
                talk = ctypes.c_void_p()
                native.check(native.sequence_create(self._open(), talk, native.error_buffer()))
                self._talk = talk
            return native.chat_answer(self._talk, None, 0, chat, params, *rest)
        return self._pieces(run, tokens)

    def _pieces(self, run, tokens):
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
            self.last_tokens = tokens
            if not failed:
                self.last_stats = _stats(stats)
        if failed:
            raise failed[0]

    def __repr__(self):
        if self.handle is None:
            return "<portico.Model, closed>"
        info = self.info
        return f"<portico.Model {info['architecture']}, {info['parameters']} parameters, on {info['device']}>"


def load(path, *, device=None, context_length=0, adapter=None, cache_type="f32", sequences=0, progress=None):
    """Opens a model: a .gguf file, or a folder with config.json and model.safetensors.

        for piece in portico.load("model.gguf").generate("Once upon a time"):
            print(piece, end="")

    device: as in PORTICO_BACKEND; None: that of `with portico.device(...)`, or the best there is. context_length: most
    tokens of a sequence; 0: what the file says, at most 4096. adapter: a folder with a low-rank adapter (LoRA) in PEFT's
    layout, which is added to the weights. cache_type: how keys and values are kept: "f32", "f16" (half the memory) or
    "q8_0" (about a quarter). sequences: how many texts generate_batch continues side by side (decoder-only; 0: one), each
    with a cache of its own. progress: True or False: a bar on stderr; None: where that is a terminal; or a function that is called with a share between 0 and 1 while the model is opened, which cancels by
    returning something true (CancelledError).
    """
    return Model(path, device, context_length, progress, adapter, cache_type, sequences)
