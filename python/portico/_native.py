"""The library, through ctypes: its functions, its structs, and its errors as exceptions."""
import ctypes
import os
import threading
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32, \
    c_uint64, c_void_p

FOLDER = os.path.dirname(os.path.abspath(__file__))
NONE = 0xFFFFFFFF
MAX_RANK = 8
MAX_OUTPUTS = 4


class Error(RuntimeError):
    """What Portico could not do, in one line. `status` is the number that C has for it (pco_status)."""

    status = 12


class InvalidError(Error, ValueError):
    """An argument, attribute or shape is not acceptable."""

    status = 1


class UnsupportedError(Error):
    """Understood, and not available here; the message says why."""

    status = 2


class OutOfMemoryError(Error, MemoryError):
    """The host or the device has not enough memory. The device stays usable."""

    status = 3


class DeviceLostError(Error):
    """The device is gone; what was on it is lost."""

    status = 5


class FileError(Error, OSError):
    """A file could not be read, or does not hold what its format promises."""

    status = 6


class NotFoundError(Error, LookupError):
    """There is no such device, tensor or file entry; the message lists those there are."""

    status = 8


class CancelledError(Error):
    """A callback asked to stop."""

    status = 10


ERRORS = {1: InvalidError, 2: UnsupportedError, 3: OutOfMemoryError, 4: OutOfMemoryError, 5: DeviceLostError,
          6: FileError, 7: FileError, 8: NotFoundError, 10: CancelledError}


class Tensor(ctypes.Structure):
    _fields_ = [("dtype", c_uint32), ("kind", c_uint32), ("rank", c_uint32), ("alias", c_uint32),
                ("shape", c_int64 * MAX_RANK), ("bytes", c_uint64), ("data", c_void_p), ("name", c_char_p)]


class Contract(ctypes.Structure):
    _fields_ = [(name, c_uint32) for name in ("accumulate_f32", "accumulate_f16", "accumulate_bf16", "compute",
                                              "round_to_nearest", "subnormals", "contraction", "nan_inf")] + \
               [(name, c_float) for name in ("div_ulp", "sqrt_ulp", "rsqrt_ulp", "function_ulp")]


class DeviceInfo(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("type", c_uint32), ("name", c_char * 256), ("driver", c_char * 256),
                ("platform", c_char * 256), ("aliases", c_char * 128), ("uuid", c_uint8 * 16), ("memory", c_uint64),
                ("max_allocation", c_uint64), ("max_binding", c_uint64), ("buffer_alignment", c_uint32),
                ("max_workgroup", c_uint32), ("shared_memory", c_uint32), ("subgroup_min", c_uint32),
                ("subgroup_max", c_uint32), ("features", c_uint32), ("not_in_build", c_char * 256),
                ("contract", Contract), ("n_edges", c_uint32), ("edges", c_uint32 * 24), ("vendor_id", c_uint32),
                ("device_id", c_uint32), ("api", c_char * 64), ("driver_version", c_char * 64),
                ("driver_file", c_char * 512)]


class Sized(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **values):
        super().__init__(size=ctypes.sizeof(self), **values)


class DeviceDescription(Sized):
    _fields_ = [("size", c_size_t), ("id", c_char * 96), ("preferred", c_uint32), ("info", DeviceInfo)]


class PluginDescription(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char * 64), ("path", c_char * 512), ("reason", c_char * 512),
                ("devices", c_uint32)]


LOG = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_double)
TEXT = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_char), c_size_t)


class Token(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("id", c_int32), ("step", c_int64), ("text", POINTER(c_char)), ("bytes", c_size_t),
                ("logits", POINTER(c_float)), ("vocab_size", c_int64)]


TOKEN = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Token))


class ContextParams(Sized):
    _fields_ = [("size", c_size_t), ("backend", c_char_p), ("log_level", c_uint32), ("log", LOG),
                ("log_user", c_void_p)]


class ExecutableParams(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("no_decomposition", c_int), ("force_decomposition", c_int),
                ("no_self_test", c_int), ("plan_only", c_int)]


class ExecutableStats(Sized):
    _fields_ = [("size", c_size_t)] + [(name, c_uint32) for name in ("nodes", "parts", "cpu_nodes", "decomposed")] + \
               [(name, c_uint64) for name in ("constant_bytes", "state_bytes", "arena_bytes", "transient_bytes",
                                              "io_bytes", "arena_lower_bound")]


class ModelParams(Sized):
    _fields_ = [("size", c_size_t), ("device", c_char_p), ("context_length", c_int64), ("progress", PROGRESS),
                ("progress_user", c_void_p), ("sequences", c_int64), ("cache_type", c_uint32), ("adapter", c_char_p)]


class ModelInfo(Sized):
    _fields_ = [("size", c_size_t), ("architecture", c_char * 32), ("device", c_char * 96)] + \
               [(name, c_int64) for name in ("vocab_size", "source_vocab_size", "context_length",
                                             "file_context_length", "layers", "width")] + \
               [(name, c_uint64) for name in ("parameters", "constant_bytes", "state_bytes", "arena_bytes",
                                              "io_bytes", "device_bytes", "peak_device_bytes")] + \
               [("sequences", c_int64), ("cached_tokens", c_int64)]


class GenerateParams(Sized):
    _fields_ = [("size", c_size_t), ("max_tokens", c_int64), ("temperature", c_double), ("top_k", c_int64),
                ("top_p", c_double), ("seed", c_uint64), ("echo", c_int), ("prefix", c_char_p),
                ("prompt_ids", POINTER(c_int32)), ("prefix_ids", POINTER(c_int32)), ("prompt_count", c_size_t),
                ("prefix_count", c_size_t), ("sample", c_void_p), ("token", TOKEN), ("progress", c_void_p),
                ("min_p", c_double), ("typical_p", c_double), ("repeat_penalty", c_double),
                ("presence_penalty", c_double), ("frequency_penalty", c_double), ("repeat_last_n", c_int64),
                ("stop", POINTER(c_char_p)), ("stop_count", c_size_t), ("context_shift", c_int), ("keep", c_int64),
                ("draft", c_void_p), ("draft_tokens", c_int64), ("grammar", c_char_p), ("json_schema", c_char_p)]


class ChatParams(Sized):
    _fields_ = [("size", c_size_t), ("source", c_char_p), ("complete", c_int), ("time", c_int64), ("variables", c_char_p)]


class GenerateStats(Sized):
    _fields_ = [("size", c_size_t), ("stop_reason", c_int), ("load_seconds", c_double), ("prompt_tokens", c_int64),
                ("prompt_seconds", c_double), ("generated_tokens", c_int64), ("generation_seconds", c_double),
                ("peak_device_bytes", c_uint64), ("context_shifts", c_int64), ("drafted_tokens", c_int64),
                ("accepted_tokens", c_int64), ("shared_tokens", c_int64)]


BEAM_PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64)


class BeamParams(Sized):
    _fields_ = [("size", c_size_t), ("beams", c_int64), ("returned", c_int64), ("length_penalty", c_double),
                ("early_stopping", c_int), ("progress", BEAM_PROGRESS), ("progress_user", c_void_p)]


class Beam(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("rank", c_int64), ("text", c_void_p), ("bytes", c_size_t),
                ("ids", POINTER(c_int32)), ("count", c_size_t), ("score", c_double), ("log_probability", c_double),
                ("stop_reason", c_int)]


BEAM = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Beam))


SPEECH_PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_double, c_double)


class TranscribeParams(Sized):
    _fields_ = [("size", c_size_t), ("language", c_char_p), ("translate", c_int), ("timestamps", c_int), ("beams", c_int64),
                ("length_penalty", c_double), ("max_tokens", c_int64), ("progress", SPEECH_PROGRESS),
                ("progress_user", c_void_p)]


class SpeechSegment(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("window", c_int64), ("begin", c_double), ("end", c_double), ("text", c_void_p),
                ("bytes", c_size_t), ("ids", POINTER(c_int32)), ("count", c_size_t), ("language", c_char_p),
                ("log_probability", c_double)]


SPEECH = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(SpeechSegment))


class Image(Sized):
    _fields_ = [("size", c_size_t), ("width", c_int64), ("height", c_int64), ("rgb", c_void_p)]


EMBED_PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t, c_size_t)


class EmbedParams(Sized):
    _fields_ = [("size", c_size_t), ("pooling", c_int), ("normalize", c_int), ("progress", EMBED_PROGRESS),
                ("progress_user", c_void_p)]


class ClassifyParams(Sized):
    _fields_ = [("size", c_size_t), ("labels", POINTER(c_char_p)), ("label_count", c_size_t), ("logits", c_int),
                ("progress", EMBED_PROGRESS), ("progress_user", c_void_p)]


def library_path():
    """In a wheel the library lies within the package; in a build tree above it."""
    for path in (os.path.join(FOLDER, "lib", "libportico.so"),
                 os.path.join(FOLDER, "..", "..", "libportico.so.0")):
        if os.path.exists(path):
            return os.path.realpath(path)
    raise ImportError(f"portico: there is no libportico.so in {FOLDER}/lib; install the wheel, or build Portico and set "
                      "PYTHONPATH=build/python")


_PATH = library_path()
# Calls that run a device or call back let other Python threads run; those that only build do not give the lock up,
# which costs more than they do.
_runs = ctypes.CDLL(_PATH)
_builds = ctypes.PyDLL(_PATH)


def _function(library, name, result, *arguments):
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


_handle = c_void_p
_out = POINTER(c_void_p)
_err = c_void_p

version = _function(_builds, "pco_version", c_char_p)
status_text = _function(_builds, "pco_status_text", c_char_p, c_int)
free = _function(_builds, "pco_free", None, c_void_p)

context_create = _function(_runs, "pco_context_create", c_int, POINTER(ContextParams), _out, _err)
context_destroy = _function(_runs, "pco_context_destroy", None, _handle)
context_devices = _function(_runs, "pco_context_devices", c_uint32, _handle, POINTER(DeviceDescription), c_uint32)
context_plugins = _function(_runs, "pco_context_plugins", c_uint32, _handle, POINTER(PluginDescription), c_uint32)

session_open = _function(_runs, "pco_session_open", c_int, _handle, c_char_p, _out, _err)
session_close = _function(_runs, "pco_session_close", None, _handle)
session_device = _function(_builds, "pco_session_device", POINTER(DeviceInfo), _handle)
session_device_id = _function(_builds, "pco_session_device_id", c_char_p, _handle)
session_memory = _function(_builds, "pco_session_memory", c_uint64, _handle, POINTER(c_uint64))
session_write_state = _function(_runs, "pco_session_write_state", c_int, _handle, c_char_p, c_void_p, c_uint64, _err)
session_read_state = _function(_runs, "pco_session_read_state", c_int, _handle, c_char_p, c_void_p, c_uint64, _err)

graph_create = _function(_builds, "pco_graph_create", c_void_p)
graph_destroy = _function(_builds, "pco_graph_destroy", None, _handle)
graph_check = _function(_builds, "pco_graph_check", c_int, _handle, _err)
_shape = POINTER(c_int64)
graph_input = _function(_builds, "pco_graph_input", c_uint32, _handle, c_char_p, c_int, c_uint32, _shape)
graph_state = _function(_builds, "pco_graph_state", c_uint32, _handle, c_char_p, c_int, c_uint32, _shape)
graph_constant_copy = _function(_builds, "pco_graph_constant_copy", c_uint32, _handle, c_char_p, c_int, c_uint32,
                                _shape, c_void_p)
graph_scalar = _function(_builds, "pco_scalar", c_uint32, _handle, c_int, c_double)
graph_output = _function(_builds, "pco_graph_output", c_uint32, _handle, c_uint32, c_char_p)
graph_describe = _function(_builds, "pco_graph_describe", c_int, _handle, c_uint32, POINTER(Tensor), _err)
graph_add = _function(_builds, "pco_graph_add", c_uint32, _handle, c_int, c_char_p, POINTER(c_uint32), c_uint32,
                      POINTER(c_uint32))
graph_concat = _function(_builds, "pco_concat", c_uint32, _handle, POINTER(c_uint32), c_uint32, c_int64)
graph_rope_phase = _function(_builds, "pco_rope_phase", c_uint32, _handle, c_double, c_uint32, POINTER(c_float))
graph_sinusoidal_phase = _function(_builds, "pco_sinusoidal_phase", c_uint32, _handle, c_uint32, c_int)
graph_gradients = _function(_builds, "pco_gradients", c_int, _handle, c_uint32, POINTER(c_uint32), c_uint32,
                            POINTER(c_uint32), _err)
graph_global_norm = _function(_builds, "pco_global_norm", c_uint32, _handle, POINTER(c_uint32), c_uint32)
graph_clip_scale = _function(_builds, "pco_clip_scale", c_uint32, _handle, c_uint32, c_double)

executable_create = _function(_runs, "pco_executable_create", c_int, _handle, _handle, POINTER(ExecutableParams), _out,
                              _err)
executable_destroy = _function(_runs, "pco_executable_destroy", None, _handle)
executable_tensor = _function(_builds, "pco_executable_tensor", c_uint32, _handle, c_char_p)
executable_write = _function(_runs, "pco_executable_write", c_int, _handle, c_uint32, c_void_p, c_uint64, _err)
executable_lend = _function(_builds, "pco_executable_lend", c_int, _handle, c_uint32, c_void_p, c_uint64, _err)
executable_read = _function(_runs, "pco_executable_read", c_int, _handle, c_uint32, c_void_p, c_uint64, _err)
executable_run = _function(_runs, "pco_executable_run", c_int, _handle, _err)
executable_inspect = _function(_builds, "pco_executable_inspect", c_int, _handle, POINTER(ExecutableStats), _err)

model_open = _function(_runs, "pco_model_open", c_int, _handle, c_char_p, POINTER(ModelParams), _out, _err)
model_close = _function(_runs, "pco_model_close", None, _handle)
model_describe = _function(_builds, "pco_model_describe", None, _handle, POINTER(ModelInfo))
_ids = POINTER(c_int32)
model_tokenize = _function(_builds, "pco_model_tokenize", c_int, _handle, c_char_p, c_size_t, c_int, POINTER(_ids),
                           POINTER(c_size_t), _err)
model_detokenize = _function(_builds, "pco_model_detokenize", c_int, _handle, _ids, c_size_t, POINTER(c_void_p),
                             POINTER(c_size_t), _err)
model_generate = _function(_runs, "pco_model_generate", c_int, _handle, c_char_p, POINTER(GenerateParams), TEXT,
                           c_void_p, POINTER(GenerateStats), _err)
ANSWER = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(GenerateStats))
model_generate_batch = _function(_runs, "pco_model_generate_batch", c_int, _handle, POINTER(c_char_p), c_size_t,
                                 POINTER(GenerateParams), TEXT, ANSWER, POINTER(c_void_p), POINTER(GenerateStats), _err)
model_beam_search = _function(_runs, "pco_model_beam_search", c_int, _handle, c_char_p, POINTER(GenerateParams),
                              POINTER(BeamParams), BEAM, c_void_p, POINTER(GenerateStats), _err)
sound_read = _function(_runs, "pco_sound_read", c_int, c_char_p, POINTER(c_void_p), POINTER(c_size_t), _err)
model_transcribe = _function(_runs, "pco_model_transcribe", c_int, _handle, c_void_p, c_size_t, POINTER(TranscribeParams),
                             SPEECH, c_void_p, c_void_p, _err)
model_embed = _function(_runs, "pco_model_embed", c_int, _handle, POINTER(c_char_p), c_size_t, POINTER(EmbedParams), c_void_p,
                        c_void_p, _err)
image_read = _function(_runs, "pco_image_read", c_int, c_char_p, POINTER(Image), _err)
model_embedding_width = _function(_builds, "pco_model_embedding_width", c_int64, _handle, c_int, c_int)
model_embed_images = _function(_runs, "pco_model_embed_images", c_int, _handle, POINTER(Image), c_size_t,
                               POINTER(EmbedParams), c_void_p, _err)
model_classify = _function(_runs, "pco_model_classify", c_int, _handle, POINTER(Image), c_size_t, POINTER(ClassifyParams),
                           c_void_p, _err)
model_labels = _function(_builds, "pco_model_labels", c_int, _handle, POINTER(POINTER(c_char_p)), POINTER(c_size_t), _err)
model_token = _function(_builds, "pco_model_token", c_void_p, _handle, c_int32, POINTER(c_size_t))
sequence_create = _function(_runs, "pco_sequence_create", c_int, _handle, POINTER(_handle), _err)
sequence_destroy = _function(_runs, "pco_sequence_destroy", None, _handle)
chat_render = _function(_runs, "pco_chat_render", c_int, _handle, c_void_p, c_size_t, POINTER(ChatParams),
                        POINTER(c_void_p), POINTER(c_size_t), _err)
chat_answer = _function(_runs, "pco_chat_answer", c_int, _handle, c_void_p, c_size_t, POINTER(ChatParams),
                        POINTER(GenerateParams), TEXT, c_void_p, POINTER(GenerateStats), _err)
model_logits = _function(_runs, "pco_model_logits", c_int, _handle, _ids, c_size_t, c_void_p, _err)

_local = threading.local()


def error_buffer():
    """The calling thread's pco_error, for the last argument of a call."""
    try:
        return _local.error
    except AttributeError:
        _local.error = ctypes.create_string_buffer(1024)
        return _local.error


def failure(status):
    """The exception for a status, with the line that the call has left."""
    text = error_buffer().value.decode("utf-8", "replace") or status_text(status).decode()
    error = ERRORS.get(status, Error)(text)
    error.status = status
    return error


def check(status):
    if status:
        raise failure(status)


def encoded(text, what):
    """A string for C: UTF-8, without a NUL in it."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is {type(text).__name__}, and must be str")
    if "\0" in text:
        raise InvalidError(f"{what} holds a NUL character")
    return text.encode("utf-8")
