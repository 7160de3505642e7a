"""Whatever is done to a good site: a green check, or a problem with its place."""

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.helpers import sites
from tests.unit.helpers.examples import examples

from rdmaprov import contract
from rdmaprov.inventory import SiteError, load_site, schema

NAMES = sorted(schema.load_shipped().variables)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["{{ nowhere }}", "{{ 1 // 0 }}", "{{", "{% if %}", "off", "10.0.0.1/24", "::/0", "mlx5_0"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.sampled_from(["netdev", "pci", "address", "gateway", "gpus", "mlx5_core"]),
                st.integers(-1, 70),
                st.text(max_size=6),
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)
QUICK = settings(
    max_examples=examples(120, in_check=30),
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def is_green_or_located(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        site = Path(directory) / "site"
        for name, content in files.items():
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_bytes(content)
        try:
            problems = contract.problems(load_site(site))
        except SiteError as error:
            message = error.message
            problems = []
        else:
            message = str(site)
        assert message.startswith(str(site))
        for problem in problems:
            at = problem.position
            assert Path(at.file).is_relative_to(site), problem
            assert at.line >= 1, problem
            assert at.column >= 1, problem
            assert problem.message, problem
            assert problem.remedy, problem
            assert "\n" not in problem.text(), problem


def good() -> dict[str, bytes]:
    return {name: text.encode() for name, text in sites.GOOD.items()}


@QUICK
@given(st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=4))
def test_any_values(variables: dict[str, Any]):
    text = yaml.safe_dump(variables, allow_unicode=True)
    is_green_or_located({**good(), "group_vars/nodes.yml": text.encode()})


@QUICK
@given(st.sampled_from(sorted(sites.GOOD)), st.integers(0, 400), st.binary(max_size=6))
def test_any_bytes_written_over_a_file(name: str, start: int, patch: bytes):
    files = good()
    content = files[name]
    start = min(start, len(content))
    files[name] = content[:start] + patch + content[start + len(patch) :]
    is_green_or_located(files)


@QUICK
@given(st.sampled_from(sorted(sites.GOOD)), st.integers(0, 300), st.text(max_size=20))
def test_any_text_put_into_a_file(name: str, start: int, text: str):
    files = good()
    content = files[name].decode()
    start = min(start, len(content))
    changed = content[:start] + text + content[start:]
    is_green_or_located({**files, name: changed.encode(errors="replace")})


@QUICK
@given(st.dictionaries(st.text(min_size=1, max_size=12), VALUES, max_size=3))
def test_any_hosts(hosts: dict[str, Any]):
    text = yaml.safe_dump({"nodes": {"hosts": hosts}}, allow_unicode=True)
    is_green_or_located({**good(), "hosts.yml": text.encode()})
