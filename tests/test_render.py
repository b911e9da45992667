"""Text is laid out by the templates, and nothing is decided there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import Environment, nodes

from jobgen.catalog import Catalog
from jobgen.errors import Invalid
from jobgen.load import load_cluster, load_job
from jobgen.model.facts import Facts
from jobgen.render import render
from jobgen.render import shipped_templates as shipped
from jobgen.render.data import dump_plan
from jobgen.resolve import resolve
from tests.golden.cases import templates
from tests.resolve.made import GPUS, job, plan

DECIDES = (nodes.BinExpr, nodes.UnaryExpr, nodes.Compare, nodes.Assign, nodes.AssignBlock)
DECIDES += (nodes.Filter, nodes.FilterBlock, nodes.Call, nodes.Test, nodes.CondExpr, nodes.Macro)


@pytest.mark.parametrize("name", sorted(templates()))
def test_a_template_decides_nothing(name: str) -> None:
    """Names, loops over what is given, and whether something is there: no more."""
    reader = Environment(comment_start_string="<#--", comment_end_string="--#>")  # noqa: S701
    tree = reader.parse(templates()[name])
    assert not [type(n).__name__ for n in tree.find_all(DECIDES)]


def read_with_jinja(text: str) -> list[Any]:
    marks = {"comment_start_string": "<#--", "comment_end_string": "--#>"}
    blocks = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    reader = Environment(**marks, **blocks)  # type: ignore[arg-type]  # noqa: S701
    return list(convert(reader.parse(text).body))


def convert(body: list[nodes.Node]) -> Iterator[Any]:
    """Jinja's tree as that of shipped_templates."""
    for node in body:
        match node:
            case nodes.Output():
                yield from convert(node.nodes)
            case nodes.TemplateData():
                yield node.data
            case nodes.Name() | nodes.Getattr():
                yield shipped._Value(path(node))
            case nodes.If():
                yield branch([node, *node.elif_], node.else_)
            case nodes.For():
                yield shipped._For(path(node.target), path(node.iter), [*convert(node.body)])
            case nodes.With():
                name, value = path(node.targets[0]), path(node.values[0])
                yield shipped._With(name, value, [*convert(node.body)])
            case nodes.Include(template=nodes.Const(value=name)):
                yield shipped._Include(name)
            case _:
                pytest.fail(f"{node} in a shipped template")


def branch(tests: list[nodes.If], otherwise: list[nodes.Node]) -> shipped._If:
    first, *more = tests
    last = [branch(more, otherwise)] if more else [*convert(otherwise)]
    return shipped._If(path(first.test), [*convert(first.body)], last)


def path(node: nodes.Expr) -> str:
    if isinstance(node, nodes.Getattr):
        return f"{path(node.node)}.{node.attr}"
    assert isinstance(node, nodes.Name)
    return node.name


TEXTS = {
    **templates(),
    "indented": "{% if b %}\n c {{ d }}  {% endif %}  \n\t{% if e %} {% else %}\n{% endif %}\n",
    "a line": "a{% if b %}{{ c }} {% endif +%}\n  {% for d in e.f %}\n{{ d.g }}\n{% endfor %}",
    "nothing": "",
    "all": '{% with a = b %}\n{% include "_c" %}\n{% endwith %}{% if a %}b{% elif c %}d{% endif %}',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_shipped_template_is_read_as_jinja_reads_it(text: str) -> None:
    assert repr(shipped.parse_template(text)) == repr(read_with_jinja(text))


@pytest.mark.parametrize(
    "text",
    ["{% set a = b %}", "{% if a %}", "{% endfor %}", "{% if a %}{% endfor %}", "{% if a and b %}"],
)
def test_what_no_shipped_template_has_is_refused_and_not_laid_out_otherwise(text: str) -> None:
    with pytest.raises(ValueError, match=r"statement|instead of"):
        shipped.parse_template(text)


def with_template(text: str) -> str:
    return render(plan(), {**templates(), "program.sh.j2": text})["program.sh"].content.decode()


def test_a_value_that_is_not_there_is_an_error_with_its_line() -> None:
    with pytest.raises(Invalid, match=r"program.sh.j2.*nothing_such"):
        with_template("one\n{{ nothing_such }}\n")


def test_text_is_quoted_unless_jobgen_made_it_for_the_shell() -> None:
    assert with_template("{{ name }}") == "demo"
    quoted = render(plan(job(secrets="[A, B]")), {**templates(), "program.sh.j2": "{{ secrets }}"})
    assert quoted["program.sh"].content == b"'A B'"


@pytest.mark.parametrize(
    "attack",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ env.__init__.__globals__ }}",
        "{{ env.append(1) }}",
        "{{ self._TemplateReference__context }}",
        "{% include '/etc/passwd' %}",
        "{% include '../render.py' %}",
        "{{ env }}",
        "{{ none }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ ''['__class__']['__mro__'] }}",
        "{{ ''|attr('__class__')|attr('__mro__') }}",
        "{{ ''|attr('__cla' ~ 'ss__') }}",
        "{{ ''|attr('\\x5f\\x5fclass\\x5f\\x5f') }}",
        "{{ '{0.__class__.__mro__}'.format(42) }}{{ [][0] }}",
        "{{ '{a.__class__.__mro__}'.format_map({'a': 1}) }}",
        "{{ (1).__class__.__bases__[0].__subclasses__()[0].__init__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ joiner.__init__.__globals__ }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ lipsum.__globals__['os'] }}",
        "{{ lipsum.__globals__.os.popen('id') }}",
        "{{ range.__class__ }}",
        "{{ dict.__base__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ self.__init__ }}",
        "{{ self._TemplateReference__context.environment }}",
        "{{ config }}",
        "{{ request.application.__globals__ }}",
        "{{ get_flashed_messages.__globals__ }}",
        "{{ url_for.__globals__ }}",
        "{{ env[0].__init__.__globals__ }}",
        "{{ env[0]._replace.__globals__ }}",
        "{{ stop.items.__self__ }}",
        "{{ name.encode.__self__.__class__ }}",
        "{% for c in [].__class__.__base__.__subclasses__() %}{{ c }}{% endfor %}",
        "{% set x = ''.__class__ %}{{ x }}",
        "{% import 'os' as os %}{{ os.popen('id') }}",
        "{% from 'os' import popen %}{{ popen('id') }}",
        "{% extends '/etc/passwd' %}",
        "{% macro m() %}{{ caller.__globals__ }}{% endmacro %}{{ m() }}",
        "{{ ''.join.__func__ }}{{ [].append.__self__ }}",
    ],
)
def test_a_template_reaches_nothing_but_its_values(attack: str) -> None:
    with pytest.raises(Invalid):
        with_template(attack)


def test_a_broken_template_is_told_and_is_no_traceback() -> None:
    with pytest.raises(Invalid, match=r"job.sbatch.j2:2"):
        render(plan(), {**templates(), "job.sbatch.j2": "#!/bin/bash\n{% if %}\n"})


def test_a_value_never_becomes_a_template() -> None:
    found = render(plan(job(env='{A: "{{ 7*7 }}", B: "{% raw %}"}')), templates())
    text = found["job.sbatch"].content.decode()
    assert "export A='{{ 7*7 }}'" in text
    assert "export B='{% raw %}'" in text


@settings(max_examples=60)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60))
def test_no_value_of_the_environment_adds_a_line_of_code(value: str) -> None:
    """A value is one assignment; bash gives it back byte for byte."""
    text = job(env=json.dumps({"A": value.replace("$", "$$")}))
    try:
        found = plan(text)
    except Invalid:  # what looks like a secret, or cannot stand in YAML, is refused before
        return
    script = render(found, templates())["job.sbatch"].content.decode()
    lines = script.split("# ---- Environment of every rank")[1].split("# ---- Rendezvous")[0]
    words = ["bash", "-c", f'set -u\n:{lines}\nprintf %s "$A"']
    known = {"PATH": "/usr/bin:/bin", "JOBGEN_WORK_DIR": "/w", "JOBGEN_LOG_DIR": "/l"}
    done = subprocess.run(words, env=known, capture_output=True, check=True)
    assert done.stdout.decode() == value
    assert script.count("#SBATCH") == len(found.directives)


@settings(max_examples=60)
@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), max_size=40))
def test_a_directive_is_one_line_and_means_what_was_written(value: str) -> None:
    import shlex

    try:
        found = plan(job(slurm=json.dumps({"comment": value})))
    except Invalid:  # what no directive can hold is refused by the loader
        return
    script = render(found, templates())["job.sbatch"].content.decode()
    (line,) = [text for text in script.splitlines() if text.startswith("#SBATCH --comment=")]
    (word,) = shlex.split(line.removeprefix("#SBATCH"), comments=True)
    assert word == f"--comment={found.directives['comment'].value}"


def test_the_plan_says_every_decision_with_its_why() -> None:
    data = dump_plan(plan(job(env="{A: b}", mem="0")))
    for part in ("directives", "env", "decisions"):
        assert all(entry["why"] and entry["place"] for entry in data[part].values()), part
    assert data["shape"]["world"] == 16
    assert json.loads(json.dumps(data)) == data


def test_the_plan_in_the_bundle_is_the_plan() -> None:
    found = plan()
    assert json.loads(render(found, templates())["plan.json"].content) == dump_plan(found)


RENDER = """
import hashlib, sys
from tests.golden.cases import CASES, rendered
print(hashlib.sha256("".join(rendered(c).digest for c in CASES).encode()).hexdigest())
"""


@pytest.mark.slow
def test_hash_seed_locale_width_and_folder_change_no_byte(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[1])
    answers = set()
    for seed, locale, width, folder in (
        ("0", "C", "20", root),
        ("1", "C.UTF-8", "80", str(tmp_path)),
        ("4242", "POSIX", "300", "/"),
    ):
        env = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale, "COLUMNS": width}
        env |= {"PYTHONPATH": root, "PYTHONUTF8": "0", "TZ": f"UTC{seed[0]}"}
        words = [sys.executable, "-c", RENDER]
        done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        answers.add(done.stdout)
    assert len(answers) == 1


def test_files_are_sorted_and_scripts_end_with_a_line_end() -> None:
    found = render(plan(), templates())
    paths = [file.path for file in found.files]
    assert paths == sorted(paths)
    assert all(file.content.endswith(b"\n") for file in found.files)
    assert not any(b"\r" in file.content for file in found.files)


def test_the_same_job_renders_for_every_shipped_cluster() -> None:
    profiles = {file.name: file for file in Catalog((), Path()).list_clusters()}
    assert {*profiles} >= {"local", "a100x16", "aws-p5", "oci-h100", "gcp-a2-ultra"}
    for name, file in profiles.items():
        assert "docs: " in file.text or file.parent, name
        cluster = load_cluster(file.text, file.label, parent=file.parent)
        nodes = str(min(2, cluster.value.nodes.count))
        spec = load_job(job(nodes=nodes, procs_per_node="2"), "job.yaml")
        whole = resolve(spec, cluster, Facts())
        assert render(whole, templates())["job.sbatch"].content.startswith(b"#!/bin/bash\n")


def test_a_script_made_for_gpus_says_so_in_its_first_lines() -> None:
    text = render(plan(job(), GPUS), templates())["job.sbatch"].content.decode()
    assert text.splitlines()[1] == (
        "# demo on big: 2 nodes x 8 A100-SXM4-80GB, 16 ranks, started by torchrun"
    )
