# SPDX-License-Identifier: Apache-2.0
"""What the package says of itself, its errors, and that its numbers are those of the headers."""

import io
import pathlib
import pickle
import re
import shutil
import subprocess
import sys

import pytest

import tutti
from conftest import COMMAND, tutti_run
from tutti import _errors, _native, _ops

ROOT = pathlib.Path(__file__).parents[2]


def test_versions_are_shown():
    out = io.StringIO()
    tutti.show_versions(out)
    words = out.getvalue()
    assert f"version              {tutti.__version__}" in words
    assert "libtutti-shm.so" in words and "numpy" in words


def test_the_module_is_the_command():
    command = pathlib.Path(COMMAND)
    done = subprocess.run(
        [sys.executable, "-m", "tutti", "--version"],
        env={"PATH": str(command.parent), "PYTHONPATH": str(ROOT_OF_PACKAGE)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    assert tutti.__version__ in done.stdout


ROOT_OF_PACKAGE = pathlib.Path(tutti.__file__).parents[1]


def test_errors_follow_the_list_of_statuses():
    header = (ROOT / "api/tutti/status.h").read_text()
    listed = re.findall(r"X\(ERR_(\w+), (-\d+), ", header)
    assert len(listed) == len(_errors.BY_STATUS)
    for name, number in listed:
        error_class = _errors.BY_STATUS[int(number)]
        plain = error_class.__name__.replace("SystemCall", "System").replace("Error", "")
        assert plain.lower() == name.replace("_", "").lower()
        assert error_class.name == f"TUTTI_ERR_{name}" and error_class.status == int(number)
        assert error_class.__name__ in tutti.__all__ and error_class.__module__ == "tutti"


def test_operations_have_the_numbers_of_the_glue():
    header = (ROOT / "python/glue/glue.h").read_text()
    names = re.findall(r"^    OPERATION_(\w+),$", header, re.MULTILINE)
    assert [operation.name for operation in _native.Operation] == names
    assert list(_ops.NUMBERS) == "sum avg product min max band bor bxor".split()


def test_errors_are_pickled_with_their_fields():
    error = tutti.PeerLostError(
        "words", status=-5, rank=1, peer=2, operation="barrier", missing=(2,)
    )
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is tutti.PeerLostError and str(again) == "words"
    assert (again.rank, again.peer, again.operation, again.missing) == (1, 2, "barrier", (2,))
    assert isinstance(error, ConnectionError) and isinstance(error, tutti.Error)
    system = tutti.SystemCallError("open failed", errno=2)
    assert str(system) == "open failed" and pickle.loads(pickle.dumps(system)).errno == 2


def test_arguments_that_are_not_valid_are_named():
    with tutti.init(rank=0, world_size=1, store=tutti.HashStore()) as world:
        with pytest.raises(ValueError, match="no reduction is called 'mean': use sum, avg"):
            world.all_reduce(bytearray(1), "mean")
        with pytest.raises(ValueError, match="timeout of 0 s"):
            world.barrier(timeout=0)
        with pytest.raises(tutti.InvalidArgumentError, match="root"):
            world.broadcast(bytearray(1), root=3)
        for root in (2**32, -(2**40), 2**80):
            with pytest.raises(ValueError, match=f"broadcast: root {root} is not valid: use 0"):
                world.broadcast(bytearray(1), root=root)
        with pytest.raises(ValueError, match="recv: source 4294967296 is not valid"):
            world.recv(bytearray(1), 2**32)
        for tag in (-1, 2**64):
            with pytest.raises(ValueError, match=f"send: tag {tag} is not valid: use 0 to"):
                world.send(bytearray(1), 0, tag)
        with pytest.raises(TypeError, match="send: destination 'a' is not valid: use an integer"):
            world.send(bytearray(1), "a")
        for call in (
            lambda: world.split(2**31),
            lambda: world.new([2**31]),
            lambda: world.translate([2**31], world),
        ):
            with pytest.raises(ValueError, match="2147483648 is not valid: use -2147483648 to"):
                call()
        with pytest.raises(TypeError, match="split: color 'a' is not valid: use an integer"):
            world.split("a")
        with pytest.raises(TypeError, match="the reason of abort.. must be a string, not int"):
            world.abort(3)
        with pytest.raises(ValueError, match="first extent"):
            world.reduce_scatter(memoryview(bytearray(1)).cast("B", ()))
    with pytest.raises(ValueError, match="both rank and world_size"):
        tutti.init(rank=0)
    with pytest.raises(tutti.InvalidArgumentError, match="nonesuch"):
        tutti.init(rank=0, world_size=1, store=tutti.HashStore(), backend="nonesuch")


def test_calls_on_a_group_that_was_destroyed_are_errors_of_tutti():
    with tutti.init(rank=0, world_size=1, store=tutti.HashStore()) as world:
        info = world.status()
    assert (info.proof, info.encryption) == ("none", "none")
    for call in (world.barrier, world.status):
        with pytest.raises(tutti.InvalidArgumentError, match="the group world was destroyed"):
            call()


@pytest.mark.parametrize("code", [None, 0, False])
def test_sys_exit_0_leaves_a_group_as_its_end_does(code, monkeypatch):
    with pytest.raises(SystemExit):
        with tutti.init(rank=0, world_size=1, store=tutti.HashStore()) as world:
            monkeypatch.setattr(world, "abort", lambda reason: pytest.fail(reason))
            sys.exit(code)
    assert not tutti.is_initialized()


def package_of_plugins(folder, name):
    """A package as pip would install it into the folder, whose entry point has the name."""
    module = folder / f"{name}_plugins"
    module.mkdir()
    (module / "__init__.py").write_text("")
    about = folder / f"{name}_plugins-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugins\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[tutti.plugins]\n{name} = {name}_plugins\n")
    return module, {"PYTHONPATH": f"{folder}:{ROOT_OF_PACKAGE}"}


def test_plugins_of_other_packages_are_looked_for_by_name(tmp_path):
    module, variables = package_of_plugins(tmp_path, "theirs")
    program = (
        "import os, tutti\n"
        "def init(name):\n"
        "    try: tutti.init(name, store=tutti.HashStore(), rank=0, world_size=1)\n"
        "    except tutti.Error as error: print(error)\n"
        "init('shm')\n"
        "assert 'TUTTI_PLUGIN_PATH' not in os.environ\n"
        "init('theirs')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    assert f"libtutti-theirs.so in {module}" in done.stdout, done.stdout


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler, cc")
def test_ranks_use_a_plugin_of_another_package(tmp_path):
    module, variables = package_of_plugins(tmp_path, "template")
    headers = ROOT_OF_PACKAGE / "tutti/include"
    source = ROOT / "examples/plugin-template/template.c"
    plugin = module / "libtutti-template.so"
    build = ["cc", "-std=c11", "-O1", "-fPIC", "-shared", f"-I{headers}", source, "-o", plugin]
    subprocess.run(build, timeout=60, check=True)
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, tutti\n"
        "with tutti.init(*sys.argv[1:]) as world:\n"
        "    x = bytearray([world.rank + 1])\n"
        "    world.all_reduce(x)\n"
        "    print(world.backend, x[0])\n"
        "tutti.show_versions()\n"
    )
    output = tutti_run(2, program, "template", variables=variables)
    assert output.count("template 3\n") == 2 and str(plugin) in output, output
    asked = {**variables, "TUTTI_BACKEND": "template"}
    assert tutti_run(2, program, variables=asked).count("template 3\n") == 2


@pytest.mark.parametrize("before", ["", "import tutti\n"], ids=["first", "second"])
def test_a_subinterpreter_cannot_import_it(before):
    program = (
        f"{before}import importlib\n"
        "try: i = importlib.import_module('_interpreters')\n"
        "except ImportError: i = importlib.import_module('_xxsubinterpreters')\n"
        "code = 'try:\\n import tutti\\nexcept ImportError as e: print(e)'\n"
        "i.run_string(i.create(), code)\n"
        "import tutti\n"
        "with tutti.init(store=tutti.HashStore(), rank=0, world_size=1) as world:\n"
        "    print(world.all_reduce(bytearray([3]))[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )
    assert "in the main interpreter only" in done.stdout and done.stdout.endswith("\n3\n")


def test_what_starts_slowly_is_imported_when_it_is_needed():
    program = (
        "import sys, tutti\n"
        "slow = 'asyncio', 'multiprocessing', 'importlib.metadata', 'numpy', 'torch'\n"
        "print([name for name in slow if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def programs_of_the_page():
    page = (ROOT / "docs/python.md").read_text()
    return re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(programs_of_the_page())))
def test_the_programs_of_the_page_run(number, tmp_path):
    program = programs_of_the_page()[number]
    if "mlx" in program:
        pytest.importorskip("mlx.core")
    path = tmp_path / "program.py"
    path.write_text(program)
    if "tutti.spawn" in program:
        done = subprocess.run(
            [sys.executable, path], stdout=subprocess.PIPE, text=True, timeout=60, check=True
        )
        assert done.stdout == "[3, 3]\n"
    else:
        tutti_run(2, path)


def test_the_examples_run():
    output = tutti_run(4, ROOT / "examples/python/all_reduce.py")
    assert "rank 3 of 4: [6.0, 6.0, 6.0, 6.0]" in output
    output = tutti_run(3, ROOT / "examples/python/objects.py")
    assert "lines: [0, 10, 20] rate: 0.1" in output
    assert "the message went through rank 0, rank 1, rank 2" in output


def test_the_example_of_mlx_averages_gradients():
    pytest.importorskip("mlx.core")
    output = tutti_run(3, ROOT / "examples/python/average_mlx.py")
    assert "loss of 3 ranks: " in output
