# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, in a group of one: what each protocol gives, and what is refused.

Libraries that are not installed are imitated by what they export.
"""

import array
import ctypes
import gc
import os
import pathlib
import sys
import threading
import types

import numpy as np
import pytest

import tutti
from tutti import _native


@pytest.fixture(scope="module")
def group():
    with tutti.init(rank=0, world_size=1, store=tutti.HashStore()) as world:
        yield world


def result_of(group, x):
    """The number of bytes that a send of x to the own rank moves, and their contents."""
    out = np.zeros(64, "u1")
    group.send(x, 0, tag=1)
    return out[: group.recv_up_to(out, 0, tag=1).bytes].tobytes()


class Unversioned:
    """An array that gives "dltensor" alone, as MLX does."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self):
        return self.values.__dlpack__()


class Versioned:
    def __init__(self, values, asked):
        self.values, self.asked = values, asked

    def __dlpack__(self, *, max_version):
        self.asked.append(max_version)
        return self.values.__dlpack__()


def test_dlpack_is_asked_with_a_version_first(group):
    asked = []
    values = np.arange(3.0)
    group.all_reduce(Versioned(values, asked))
    assert asked == [(1, 1)]
    assert result_of(group, Versioned(values, asked)) == values.tobytes()


def test_dlpack_without_a_version_is_taken(group):
    values = np.arange(6, dtype="i2").reshape(2, 3)
    assert result_of(group, Unversioned(values.T)) == np.ascontiguousarray(values.T).tobytes()


def test_imported_arrays_are_given_back_once(group):
    values = np.arange(3.0)
    before = sys.getrefcount(values)
    for _ in range(5):
        group.all_reduce(Unversioned(values))
        group.all_reduce(values)
        group.all_reduce_async(Unversioned(values)).wait()
    gc.collect()
    assert sys.getrefcount(values) == before


def test_read_only_arrays_are_inputs_only(group):
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    out = np.empty(3)
    group.all_reduce(fixed, out=out)
    assert out.tolist() == [0, 1, 2]
    group.send(b"abc", 0)
    group.recv(np.empty(3, "u1"), 0)
    with pytest.raises(tutti.ArrayError, match="^all_reduce writes x, which is read-only: pass out="):
        group.all_reduce(fixed)
    for call in (lambda: group.recv(b"abc", 0), lambda: group.all_gather(out, out=fixed)):
        with pytest.raises(tutti.ArrayError, match="writes an array that is read-only: pass a wri"):
            call()


def test_none_is_no_array(group):
    for call in (group.all_reduce, group.all_gather, group.reduce_scatter, group.recv):
        with pytest.raises(tutti.ArrayError, match="^the array is None$"):
            call(None)
    with pytest.raises(tutti.ArrayError, match="^the array is None$"):
        group.send(None, 0)


def test_a_refusal_says_what_each_protocol_answered(group):
    for refused in (3.5, "words", object(), {1: 2}):
        with pytest.raises(tutti.ArrayError) as raised:
            group.all_reduce(refused)
        words = str(raised.value)
        assert type(refused).__name__ in words
        assert "buffer protocol: " in words and "__dlpack__" in words, words
        assert isinstance(raised.value, (TypeError, ValueError)) and raised.value.status == -1
    with pytest.raises(tutti.ArrayError, match="'.*' .*no dtype of tutti"):
        group.all_reduce(np.array(["a"]))
    with pytest.raises(tutti.ArrayError, match='no dtype of tutti .x.view."u1". moves'):
        group.all_reduce(np.zeros(2, ">i4"))
    with pytest.raises(tutti.ArrayError, match="multiples of its element's size"):
        group.all_reduce(np.zeros(4, np.dtype([("a", "i4"), ("b", "u1")]))["a"])


def test_overlapping_elements_are_not_written(group):
    one = np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,))
    assert len(result_of(group, one)) == 24
    with pytest.raises(tutti.UnsupportedError):
        group.all_reduce(np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,), writeable=True))


def test_every_format_has_its_dtype():
    expected = {
        "b": "i8", "B": "u8", "h": "i16", "H": "u16", "i": "i32", "I": "u32",
        "l": "i64", "L": "u64", "q": "i64", "Q": "u64", "f": "f32", "d": "f64",
    }  # fmt: skip
    for format, name in expected.items():
        dtype, shape = _native.measure(array.array(format, [1, 2]))
        assert _native.text(_native.lib.tutti_dtype_name(dtype)) == name and shape == (2,)
    for name, numpy_name in (("bool", "?"), ("f16", "f2"), ("c64", "c8"), ("c128", "c16")):
        dtype, _ = _native.measure(np.zeros(1, numpy_name))
        assert _native.text(_native.lib.tutti_dtype_name(dtype)) == name


# ---- the table of C functions of a type, as torch has it ----


def exchange_type(device=(1, 0), stream=None):
    """A type with a table over NumPy's own export, and how often the table was called.

    Its arrays lie on the device, whose current stream is `stream`."""
    calls = []
    named = ctypes.pythonapi.PyCapsule_New
    named.restype, named.argtypes = ctypes.py_object, [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_void_p,
    ]

    class Deleter(ctypes.Structure):
        pass

    delete_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    Deleter._fields_ = [
        ("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p), ("deleter", delete_type),
        ("flags", ctypes.c_uint64), ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32), ("dtype", ctypes.c_uint32), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
    ]  # fmt: skip
    alive = []

    @delete_type
    def delete(_managed):
        calls.append("deleted")

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
    def from_object(obj, ret):
        calls.append("exported")
        shape = (ctypes.c_int64 * 1)(len(obj.values))
        managed = Deleter()
        managed.version[0] = 1
        managed.deleter = delete
        managed.data, managed.ndim = obj.address or obj.values.ctypes.data, 1
        managed.device[:] = device
        managed.dtype = 2 | 64 << 8 | 1 << 16
        managed.shape = ctypes.addressof(shape)
        alive.append((managed, shape))
        ret[0] = ctypes.addressof(managed)
        return 0

    @ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
    )
    def current_stream(kind, number, ret):
        calls.append((kind, number))
        ret[0] = stream
        return 0

    class Table(ctypes.Structure):
        _fields_ = [
            ("version", ctypes.c_uint32 * 2), ("previous", ctypes.c_void_p),
            ("allocate", ctypes.c_void_p), ("from_object", ctypes.c_void_p),
            ("others", ctypes.c_void_p * 2), ("current_stream", ctypes.c_void_p),
        ]  # fmt: skip

    table = Table()
    table.version[0] = 1
    table.from_object = ctypes.cast(from_object, ctypes.c_void_p).value
    if stream:
        table.current_stream = ctypes.cast(current_stream, ctypes.c_void_p).value

    class Tensor:
        requires_grad = False
        __dlpack_c_exchange_api__ = named(ctypes.addressof(table), b"dlpack_exchange_api", None)

        def __init__(self, values, address=None):
            self.values, self.address = values, address

        def is_neg(self):
            return False

    Tensor.keep = (table, from_object, delete, current_stream, alive)
    return Tensor, calls


def test_a_table_of_c_functions_comes_before_all_else(group):
    tensor_type, calls = exchange_type()
    x = tensor_type(np.arange(4.0))
    assert result_of(group, x) == np.arange(4.0).tobytes()
    assert calls == ["exported", "deleted"]
    group.all_reduce(x)
    assert calls == ["exported", "deleted"] * 2


def test_a_tensor_that_requires_a_gradient_is_refused(group):
    tensor_type, calls = exchange_type()
    x = tensor_type(np.arange(4.0))
    x.requires_grad = True
    with pytest.raises(tutti.ArrayError, match="__dlpack_c_exchange_api__: it requires a gradient"):
        group.all_reduce(x)
    assert calls == ["exported", "deleted"]


# ---- arrays on GPUs, those of the stand-in for CUDA's driver ----


class Gpu:
    """Device 0, as a library of arrays uses it."""

    def __init__(self, path):
        self.driver = ctypes.CDLL(path)
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        assert getattr(self.driver, name)(*arguments) == 0, name

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def pinned(self, contents):
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(len(contents)), 3)
        ctypes.memmove(address, contents, len(contents))
        return address.value

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value

    def write_late(self, stream, address, contents, seconds):
        """Puts a copy on the stream, which waits so long before it."""
        word = self.pinned(bytes(4))
        self.call("cuStreamWaitValue32_v2", ctypes.c_void_p(stream), ctypes.c_uint64(word), 1, 0)
        self.call(
            "cuMemcpyAsync",
            ctypes.c_uint64(address),
            ctypes.c_uint64(self.pinned(contents)),
            ctypes.c_size_t(len(contents)),
            ctypes.c_void_p(stream),
        )
        threading.Timer(seconds, ctypes.memmove, (word, b"\1\0\0\0", 4)).start()


@pytest.fixture(scope="module")
def gpu():
    command = os.environ.get("TUTTI_TEST_COMMAND")
    path = command and pathlib.Path(command).parent.parent / "lib/standin/libcuda.so.1"
    if not path or not path.exists():
        pytest.skip("the stand-in for CUDA's driver is not built")
    os.environ["TUTTI_CUDA"] = str(path)
    return Gpu(str(path))


def test_a_gpu_array_is_read_behind_what_lies_on_its_librarys_stream(group, gpu):
    values = np.arange(4.0)
    address, stream = gpu.allocate(values.nbytes), gpu.stream()
    tensor_type, calls = exchange_type((2, 0), stream)
    gpu.write_late(stream, address, values.tobytes(), 0.1)
    assert result_of(group, tensor_type(values, address)) == values.tobytes()
    assert calls == ["exported", (2, 0), "deleted"]


def test_gpu_arrays_of_two_streams_are_refused_in_one_call(group, gpu):
    values = np.arange(4.0)
    x, out = (
        exchange_type((2, 0), gpu.stream())[0](values, gpu.allocate(values.nbytes))
        for _ in range(2)
    )
    with pytest.raises(tutti.ArrayError, match="another stream orders it"):
        group.all_reduce(x, out=out)


def test_a_gpu_array_whose_library_tells_no_stream_is_refused(group, gpu):
    values = np.arange(4.0)
    x = exchange_type((2, 0))[0](values, gpu.allocate(values.nbytes))
    with pytest.raises(tutti.ArrayError, match="it does not tell its current stream"):
        group.all_reduce(x)


# ---- libraries with dtypes or rules of their own ----


def test_dtypes_of_ml_dtypes_are_taken(group):
    try:
        import ml_dtypes

        x = np.arange(4).astype(ml_dtypes.bfloat16)
    except ImportError:
        pytest.skip("ml_dtypes is not installed")
    assert _native.measure(x)[0] == _native.lib.TUTTI_BF16
    assert group.all_reduce(x).tolist() == [0, 1, 2, 3]
    assert group.all_gather(x[::2]).dtype == x.dtype
    for name in ("float8_e4m3fn", "float8_e5m2"):
        group.all_reduce(np.ones(3).astype(getattr(ml_dtypes, name)))


def mlx_like():
    """A library whose arrays are never written, and whose module is mlx.core."""
    module = types.ModuleType("mlx.core")

    class Array(np.ndarray):
        pass

    def make(values):
        return np.array(values).view(Array)

    Array.__module__ = "mlx.core"
    module.array, module.Array = make, Array
    for name in "bool_ uint8 int32 int64 float32 float64 complex64".split():
        setattr(module, name, np.dtype(name))
    return module


@pytest.fixture
def mlx(monkeypatch):
    module = mlx_like()
    monkeypatch.setitem(sys.modules, "mlx.core", module)
    return module


def test_arrays_that_never_change_come_back_new(group, mlx):
    x = mlx.array([[1.0, 2.0], [3.0, 4.0]])
    before = x.copy()
    for call in (
        group.all_reduce,
        group.reduce,
        group.all_gather,
        group.reduce_scatter,
        group.all_to_all,
        lambda x: group.all_reduce_async(x).wait(),
        lambda x: group.all_gather_async(x).result,
        lambda x: (group.send(x, 0), group.recv_like(x, 0)[0])[1],
    ):
        result = call(x)
        assert result is not x and type(result) is mlx.Array, call
        assert result.tolist() == before.tolist() == x.tolist()
    assert group.broadcast(x) is x
    with pytest.raises(tutti.ArrayError, match="never written"):
        group.recv(x, 0)
    with pytest.raises(tutti.ArrayError, match="never written"):
        group.all_reduce(np.ones((2, 2)), out=x)


def test_real_mlx(group):
    mx = pytest.importorskip("mlx.core")
    for dtype in (mx.float32, mx.bfloat16, mx.float16, mx.int32, mx.complex64, mx.bool_):
        x = mx.array([1, 0, 1]).astype(dtype)
        result = group.all_reduce(x, "bor" if dtype == mx.bool_ else "sum")
        assert result.dtype == dtype and mx.array_equal(result, x).item()
        assert group.all_gather(x).shape == (3,)


def test_real_jax(group):
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(6.0).reshape(2, 3)
    result = group.all_reduce(x)
    assert type(result) is type(x) and result is not x and (result == x).all()
    assert group.all_gather(x).shape == (2, 3)


def test_real_torch(group):
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0).reshape(2, 3)
    assert group.all_reduce(x) is x and group.all_reduce(x.T) is not x
    for dtype in (torch.bfloat16, torch.float16, torch.float8_e5m2, torch.bool, torch.complex64):
        group.all_gather(torch.ones(3).to(dtype))
    with pytest.raises(tutti.ArrayError, match="gradient"):
        group.all_reduce(torch.ones(3, requires_grad=True))
    conjugated = torch.ones(3, dtype=torch.complex64).conj()
    for pending, words in ((conjugated, "conjugation"), (conjugated.imag, "negation")):
        with pytest.raises(tutti.ArrayError, match=f"{words} is pending"):
            group.all_reduce(pending)
