"""The secrets of a site are known before anything is shown of it."""

import sys
from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers.shell import execute
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.cli import run
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import load_site
from rdmaprov.inventory.secrets import is_secret_name


@pytest.mark.parametrize(("name", "secret"), cases(__file__, "name_says_what_is_secret"))
def test_name_says_what_is_secret(name, secret):
    assert is_secret_name(name) is secret


@pytest.mark.parametrize("words", [[], ["--format", "github"], ["--json", "-"]])
def test_check_shows_no_secret_that_is_a_wrong_value(tmp_path, capsys, words):
    value = "se%cret-Value"
    variables = f"site_password: {value}\nfabric_link_manager: '{{{{ site_password }}}}'\n"
    site = write(tmp_path / "site", {**GOOD, "group_vars/nodes.yml": f"---\n{variables}"})
    assert run(["check", str(site), *words]) == ExitCode.INVALID_SITE
    said = capsys.readouterr()
    assert "********" in said.out
    assert "cret-Value" not in said.out + said.err


@pytest.mark.program
def test_secrets_are_found_wherever_they_are_written(tmp_path):
    password = tmp_path / "vault.pass"
    password.write_text("correct horse")

    def vault(*words):
        program = Path(sys.executable).with_name("ansible-vault")
        argv = [str(program), *words[:1], "--vault-password-file", str(password), *words[1:]]
        return execute(argv, check=True).stdout

    site = write(
        tmp_path / "site",
        {
            **GOOD,
            "group_vars/nodes/main.yml": "---\n"
            + vault("encrypt_string", "--name", "site_word", "vaulted-string")
            + "ansible_become_password: plain-password\n"
            "site_login: {user: me, token: nested-token}\n"
            "slurm_token: \"{{ 'made' ~ '-token' }}\"\n"
            "site_plain: not-secret\n",
            "group_vars/nodes/vault.yml": "---\nsite_map: {a: [in-a-vaulted-file]}\n"
            "site_pin: 4711\n",
            "host_vars/n2.yml": "---\nipmi_password: of-one-host\n",
        },
    )
    vault("encrypt", str(site / "group_vars/nodes/vault.yml"))
    assert load_site(site, None, password).secrets() == {
        "vaulted-string",
        "plain-password",
        "nested-token",
        "made-token",
        "in-a-vaulted-file",
        "4711",
        "of-one-host",
    }
