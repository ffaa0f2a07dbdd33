"""Protocols from outside: found, part of a run's identity, taken along to workers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from antecast.cli.new import write_package
from antecast.core import ConfigurationError
from antecast.protocols import outside, specification
from antecast.protocols.registry import address, code_of, pack
from antecast.sim.identity import run_id
from antecast.sim.scenario import make_scenario


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A new protocol's package, beside which a user works; what it loads is forgotten again."""
    write_package("my-protocol", tmp_path / "my-protocol")
    monkeypatch.chdir(tmp_path / "my-protocol" / "src")
    before, path = set(sys.modules), list(sys.path)
    yield tmp_path / "my-protocol"
    for name in set(sys.modules) - before:
        if name.startswith(("my_protocol", "helper")):
            del sys.modules[name]
    sys.path[:] = path
    outside._seen.clear()
    outside._imported.cache_clear()
    outside._targets.clear()


def python(code, *, cwd, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


RUN_ID = """
from antecast.sim.identity import run_id
from antecast.sim.scenario import make_scenario
print(run_id(make_scenario({"protocol": "my_protocol:SPEC"})))
"""


def test_an_import_path_names_a_protocol(package):
    spec = specification("my_protocol:SPEC")
    assert (spec.name, address(spec)) == ("my-protocol", "my_protocol:SPEC")
    scenario = make_scenario({"protocol": {"name": "my_protocol:SPEC", "retain": 5}})
    assert scenario.plain()["protocol"]["name"] == "my_protocol:SPEC"
    assert scenario.protocol_settings.retain == 5


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("my_protocl:SPEC", "there is no module 'my_protocl'"),
        ("my_protocol.none:SPEC", "there is no module 'my_protocol.none'"),
        ("my_protocol:SPECS", "my_protocol has no 'SPECS'"),
        ("../my_protocol:SPEC", "../my_protocol:SPEC is no import path; expected package.module:NAME"),
        (":SPEC", ":SPEC is no import path"),
        ("my_protocol:", "my_protocol: is no import path"),
        ("my_protocol:make", "is a function, not a Specification"),
        ("vektor", "did you mean 'vector'?"),
    ],
)
def test_a_name_that_leads_nowhere_is_one_clear_error(package, name, words):
    with pytest.raises(ConfigurationError, match=r"protocol\.name: ") as error:
        specification(name)
    assert words in str(error.value)


def test_a_module_that_fails_to_load_says_why(package):
    (package / "src" / "my_protocol" / "ordering.py").write_text("import numpie\n")
    with pytest.raises(ConfigurationError, match="needs the module numpie, which is not there"):
        specification("my_protocol:SPEC")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("\n1 / 0\n", r"ZeroDivisionError: .* \(broken\.py, line 2\)$"),
        ("import sys\nsys.exit(0)\n", r"SystemExit: 0 \(broken\.py, line 2\)$"),
        ("from antecast.protocols import register\n\nregister(1)\n", r".*\(broken\.py, line 3\)$"),
        ("def f(:\n", r"SyntaxError: .*\(broken\.py, line 1\)$"),
    ],
)
def test_a_module_that_ends_in_an_error_says_where(tmp_path, monkeypatch, code, words):
    """One that ends the program, too: with 0, `antecast check` would say that every promise holds."""
    (tmp_path / "broken.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"broken:SPEC cannot be imported: " + words):
        specification("broken:SPEC")


def test_changed_code_makes_other_runs(package):
    """The worst a study tool can do: changed code that gives yesterday's numbers as if they were fresh."""
    src = package / "src"
    before = python(RUN_ID, cwd=src)
    assert python(RUN_ID, cwd=src) == before
    file = src / "my_protocol" / "ordering.py"
    file.write_text(file.read_text().replace("seq += 1", "seq += 2"))
    assert python(RUN_ID, cwd=src) != before


def test_the_users_own_modules_that_a_protocol_imports_count_too(package):
    src = package / "src"
    file = src / "my_protocol" / "ordering.py"
    file.write_text(f"import helper\n{file.read_text()}")
    (src / "helper.py").write_text("STEP = 1\n")
    before = python(RUN_ID, cwd=src)
    (src / "helper.py").write_text("STEP = 2\n")
    assert python(RUN_ID, cwd=src) != before
    assert set(code_of(specification("my_protocol:SPEC"))) == {"my_protocol", "helper"}


CODE_OF = """
import sys
from antecast.protocols.registry import code_of, specification
print(code_of(specification({name!r})))
"""


@pytest.mark.parametrize("changed", ["proto.py", "near.py", "far/deep.py"])
def test_code_in_folders_without_init_counts(package, tmp_path, changed):
    """A folder of modules without `__init__.py` is how many studies begin."""
    lab = tmp_path / "work" / "lab"
    (lab / "far").mkdir(parents=True)
    (lab / "proto.py").write_text(
        "from dataclasses import replace\nfrom antecast.protocols import specification\n"
        "from . import near\nfrom lab.far.deep import made\n"
        "SPEC = replace(specification('fifo'), name='lab', make=made)\n"
    )
    (lab / "near.py").write_text("A = 1\n")
    (lab / "far" / "deep.py").write_text(
        "from antecast.protocols import specification\n"
        "def made(node, settings):\n    return specification('fifo').make(node, settings)\n"
    )
    (lab / "other.py").write_text("A = 1\n")
    code = CODE_OF.format(name="lab.proto:SPEC")
    before = python(code, cwd=lab.parent)
    assert "lab.proto" in before
    (lab / "other.py").write_text("A = 2\n")
    assert python(code, cwd=lab.parent) == before, "nobody imports it"
    (lab / changed).write_text((lab / changed).read_text() + "B = 2\n")
    assert python(code, cwd=lab.parent) != before


def test_the_code_of_a_protocol_counts_wherever_it_is_installed(package, tmp_path):
    """Also without an entry point: named by its import path, and not found in the working folder."""
    site = tmp_path / "environment" / "site-packages"
    shutil.copytree(package / "src" / "my_protocol", site / "my_protocol")
    code = CODE_OF.format(name="my_protocol:SPEC")
    before = python(code, cwd=tmp_path, PYTHONPATH=str(site))
    assert "my_protocol" in before
    file = site / "my_protocol" / "ordering.py"
    file.write_text(file.read_text() + "\nMORE = 1\n")
    assert python(code, cwd=tmp_path, PYTHONPATH=str(site)) != before


def test_the_code_behind_a_partial_counts(package):
    (package / "src" / "helper.py").write_text("def make(node, settings, extra): ...\n")
    code = """
from dataclasses import replace
from functools import partial
from antecast.protocols import specification
from antecast.protocols.registry import code_of
from helper import make
print(*code_of(replace(specification("fifo"), name="mine", make=partial(partial(make), extra=1))))
"""
    assert python(code, cwd=package / "src") == "helper"


def test_code_that_changed_since_it_was_loaded_is_not_run_under_a_wrong_name(package):
    scenario = make_scenario({"protocol": "my_protocol:SPEC"})
    run_id(scenario)
    file = package / "src" / "my_protocol" / "ordering.py"
    file.write_text(file.read_text() + "\n")
    os.utime(file, ns=(1, 1))
    with pytest.raises(ConfigurationError, match="has changed since it was loaded"):
        run_id(scenario)


def test_antecasts_own_protocols_have_no_code_outside():
    assert code_of(specification("vector")) == {}


def test_workers_get_the_code_along(package, tmp_path):
    """A worker that has never heard of the package, and one that has an older version of it."""
    specification("my_protocol:SPEC")
    packed = pack(["my_protocol:SPEC", "vector"])
    assert {each.home for each in packed.packages} == {"my_protocol"}
    expected = python(RUN_ID, cwd=package / "src")
    stored = tmp_path / "packed.pickle"
    code = f"""
import pickle
from pathlib import Path
from antecast.protocols.outside import unpack
unpack(pickle.loads(Path({str(stored)!r}).read_bytes()))
{RUN_ID}"""
    import pickle

    stored.write_bytes(pickle.dumps(packed))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert python(code, cwd=elsewhere) == expected
    old = elsewhere / "my_protocol"
    old.mkdir()
    (old / "__init__.py").write_text("SPEC = None\n")
    assert python(code, cwd=elsewhere) == expected


def test_what_a_protocol_imports_travels_with_it(package, tmp_path):
    """Its own modules, whatever they are called, and folders without `__init__.py`."""
    source = package / "src"
    (source / "zebra.py").write_text("from lab.stripes import A\n")
    (source / "lab").mkdir()
    (source / "lab" / "stripes.py").write_text("A = 1\n")
    file = source / "my_protocol" / "__init__.py"
    file.write_text(file.read_text() + "\nimport zebra\n")
    stored = tmp_path / "packed.pickle"
    pack_it = f"""
import pickle
from pathlib import Path
from antecast.protocols.registry import pack
Path({str(stored)!r}).write_bytes(pickle.dumps(pack(["my_protocol:SPEC"])))
"""
    python(pack_it, cwd=source)
    code = f"""
import pickle
from pathlib import Path
from antecast.protocols.outside import unpack
unpack(pickle.loads(Path({str(stored)!r}).read_bytes()))
{RUN_ID}"""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "lab").mkdir(parents=True)
    expected = python(RUN_ID, cwd=source)
    assert python(code, cwd=elsewhere) == expected
    (elsewhere / "lab" / "stripes.py").write_text("B = 1  # an older one, without A\n")
    assert python(code, cwd=elsewhere) == expected


def test_a_protocol_from_a_script_cannot_travel(package):
    code = """
from antecast import make_scenario
from antecast.core import ConfigurationError
from antecast.protocols import Specification, register, specification
from antecast.protocols.registry import pack
from dataclasses import replace
def make(node, settings):
    return specification("vector").make(node, settings)
register(replace(specification("vector"), name="mine", make=make))
try:
    pack(["mine"])
except ConfigurationError as error:
    print(error)
"""
    assert "put it into a module and name it by its import path" in python(code, cwd=package)


def test_an_installed_package_is_found_by_its_entry_point(package, tmp_path):
    site = tmp_path / "site"
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site)]
    subprocess.run([sys.executable, *install, str(package)], check=True, capture_output=True)
    code = """
from antecast.protocols import specification, specifications
from antecast.protocols.registry import code_of
spec = specification("my-protocol")
print(spec.name, "my-protocol" in [each.name for each in specifications()], *code_of(spec))
"""
    assert python(code, cwd=tmp_path, PYTHONPATH=str(site)) == "my-protocol True my_protocol"


def test_new_writes_a_package_whose_own_test_passes(package):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=1"],
        cwd=package,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_new_refuses_names_that_cannot_be_and_folders_that_are_full(antecast):
    assert antecast("new", "Mine")[0] == 2
    assert "there is a protocol vector already" in antecast("new", "vector")[2]
    code, out, _ = antecast("new", "my-own")
    assert code == 0
    assert Path("my-own/src/my_own/ordering.py").is_file() and "antecast run scenario.toml" in out
    assert "exists already" in antecast("new", "my-own")[2]


@pytest.mark.parametrize("name", ["class", "json", "sys", "antecast", "pytest"])
def test_new_refuses_names_under_which_no_package_could_be_imported(antecast, name):
    code, _, err = antecast("new", name)
    assert code == 2
    assert "choose another name" in err
    assert not Path(name).exists()


def test_the_new_protocol_runs_and_is_compared(antecast, tmp_path, monkeypatch):
    assert antecast("new", "my-own")[0] == 0
    monkeypatch.syspath_prepend(str(tmp_path / "my-own" / "src"))
    changed = ("--set", "protocol.name=my_own:SPEC", "--set", "duration=2s")
    code, out, err = antecast("run", "my-own/scenario.toml", *changed)
    assert code == 0, err
    assert "my-own" in out
    code, out, err = antecast(
        *("compare", "my-own/scenario.toml", "--no-spark", "--seeds", "1", *changed),
        *("--protocol", "my_own:SPEC", "--protocol", "fifo"),
    )
    assert code in (0, 1), err
    assert "my_own:SPEC" in out
