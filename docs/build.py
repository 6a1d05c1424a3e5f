"""What the build of the site adds: pages made from the code, links out of docs/, checked code.

`make docs` runs it as a hook of MkDocs. The reference is made from the commands, the settings, the
docstrings and the documents that the commands print. Every code block is checked: a command of bbq
has to exist with the options that are typed, Python has to parse and to name what there is, and
TOML and JSON have to parse. That the commands do what the pages show is tested in tests/.
"""

from __future__ import annotations

import ast
import dataclasses
import html
import importlib
import inspect
import json
import os
import posixpath
import re
import shlex
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import bbq_plugin as bbq
from bbq_plugin.cli import main
from bbq_plugin.config import KEYS, Settings

ROOT = Path(__file__).resolve().parent.parent

#: Pages of the site that are files elsewhere in the project.
ELSEWHERE = {
    "adapters.md": "adapters/README.md",
    "deploy.md": "examples/deploy/README.md",
    "arena-example.md": "examples/arena/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
NOTEBOOK = "examples/tutorial.ipynb"


# -- the hooks -------------------------------------------------------------------------------------


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made or that are elsewhere."""
    made = {name: (ROOT / path).read_text(encoding="utf-8") for name, path in ELSEWHERE.items()}
    made["tutorial.md"] = notebook(json.loads((ROOT / NOTEBOOK).read_text(encoding="utf-8")))
    made["reference/commands.md"] = commands_page()
    made["reference/configuration.md"] = configuration_page()
    made["reference/python.md"] = python_page()
    made["reference/json.md"] = json_page()
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    linked = {
        target
        for page in files.documentation_pages()
        for target in _targets(page.content_string, _home(page.src_uri))
        if not target.startswith("docs/") and target not in ELSEWHERE.values()
    }
    for target in linked:
        if (ROOT / target).is_file():
            files.append(File.generated(config, f"files/{target}", abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Lead links out of docs/ to their place in the site, and check all code blocks."""
    name = page.file.src_uri
    problems = [f"{name}:{line}: {problem}" for line, problem in faults(markdown)]
    if problems:
        raise PluginError("\n".join(problems))
    home = _home(name)

    def led(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(home), link[1]))
        place = next((n for n, path in ELSEWHERE.items() if path == target), None)
        if place is None and target.startswith("docs/"):
            place = target.removeprefix("docs/")
        if place is None and (ROOT / target).is_file():
            place = f"files/{target}"
        if place is None:
            return link[0]
        return f"]({posixpath.relpath(place, posixpath.dirname(name) or '.')}{link[2] or ''})"

    return _outside_code(markdown, lambda text: _LINK.sub(led, text))


def on_post_page(output: str, **_: object) -> str:
    """Give names to what a screen reader meets, where the theme has none."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


_LINK = re.compile(r"\]\((?!\w+:|#|<)([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```+|~~~+)(\w*)[^\n]*\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)


def _home(name: str) -> str:
    """The place in the project of a page of the site."""
    return ELSEWHERE.get(name, f"docs/{name}")


def _targets(text: str, home: str) -> Iterator[str]:
    for path, _ in _LINK.findall(_FENCE.sub("", text)):
        yield posixpath.normpath(posixpath.join(posixpath.dirname(home), path))


def _outside_code(text: str, change: Any) -> str:
    """The text with a change of everything but fenced code."""
    parts, at = [], 0
    for block in _FENCE.finditer(text):
        parts += [change(text[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*parts, change(text[at:])])


# -- the check of code blocks ----------------------------------------------------------------------


def faults(markdown: str) -> Iterator[tuple[int, str]]:
    """What is wrong in the code blocks of a page, with its line."""
    for line, language, code in blocks(markdown):
        try:
            if language == "python":
                yield from ((line + at, what) for at, what in _python_faults(code))
            elif language == "toml":
                tomllib.loads(code)
            elif language == "json":
                for one in code.splitlines() if code.count("\n{") else [code]:
                    json.loads(one)
            elif language in ("", "console", "sh"):
                yield from ((line + at, what) for at, what in _shell_faults(code))
            elif language not in ("csv", "text", "py"):  # py: a signature, made below
                yield line, f"the language {language!r} of a code block is not checked"
        except (SyntaxError, ValueError) as error:
            yield line, f"this {language or 'code'} cannot be parsed: {error}"


def blocks(markdown: str) -> Iterator[tuple[int, str, str]]:
    """Each code block, fenced or indented, with its line and language."""
    for block in _FENCE.finditer(markdown):
        yield markdown.count("\n", 0, block.start()) + 2, block[2], block[3]
    rest = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), markdown)
    for found in re.finditer(r"(?<=\n\n)(?:(?: {4}.*)?\n)+", f"\n\n{rest}\n"):
        if found[0].strip():
            code = inspect.cleandoc(found[0])
            line = rest.count("\n", 0, max(0, found.start() - 2)) + 1
            python = re.match(r"(from|import) \w+", code)
            yield line, "python" if python else "", code


def _python_faults(code: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(re.sub(r"^( *)(>>> |\.\.\. )", r"\1", code, flags=re.MULTILINE))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("bbq_plugin"):
            module = importlib.import_module(str(node.module))
            for name in node.names:
                if not hasattr(module, name.name):
                    yield node.lineno - 1, f"{node.module} has no {name.name}"
        named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if named and node.value.id == "bbq" and not hasattr(bbq, node.attr):
            yield node.lineno - 1, f"bbq has no {node.attr}"


def _shell_faults(code: str) -> Iterator[tuple[int, str]]:
    joined = re.sub(r"\\\n *", lambda _: " ", code)
    for at, line in enumerate(joined.splitlines()):
        found = re.match(r"(?:\$ |Try: )?(?:[A-Z_]+=\S+ )*bbq (?!\d)(.*)", line)
        if found and "…" not in found[1]:
            problem = command_fault(shlex.split(found[1], comments=True))
            if problem:
                yield at, f"`bbq {found[1]}`: {problem}"


def command_fault(words: list[str]) -> str | None:
    """What bbq would not know of these words: the command, or an option."""
    command: click.Command = main
    context = click.Context(main, info_name="bbq")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return f"there is no command {words[0]}"
        command, words = found, words[1:]
    known = {"-h", "--help"} | {
        option for one in command.params for option in (*one.opts, *one.secondary_opts)
    }
    for word in words:
        if word in ("|", ">", "&&", ";"):
            break
        if re.match(r"--?[A-Za-z]", word) and word.partition("=")[0] not in known:
            return f"there is no option {word}"
    return None


# -- the reference, from the code ------------------------------------------------------------------


def cell(text: object) -> str:
    """Text in a table of Markdown, where it means nothing but itself."""
    plain = " ".join(str(text).split())
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(plain, quote=False))


def code(text: object) -> str:
    """Text in a table as code; nothing stays nothing."""
    if text in ("", None):
        return ""
    return f"<code>{html.escape(str(text), quote=False).replace('|', '&#124;')}</code>"


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines) + "\n"


def commands_page() -> str:
    """All commands with their options, from click."""
    parts = [
        "# Commands",
        (
            "Made from the program. [Commands with their output](../commands.md) shows each of "
            "them at work, and says what holds for all of them."
        ),
    ]

    def shown(command: click.Command, parent: click.Context | None, depth: int) -> None:
        context = click.Context(command, info_name=command.name or "bbq", parent=parent)
        inner = isinstance(command, click.Group)
        if parent is not None:
            parts.append(f"{'#' * depth} {context.command_path}")
            usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
            parts.append(f"```text\n{usage}\n```")
        parts.append(cell(command.help or "") if not inner or parent else "")
        arguments = [one for one in command.params if isinstance(one, click.Argument)]
        records = [one.get_help_record(context) for one in command.params if one not in arguments]
        rows = [[code(left), cell(right)] for left, right in filter(None, records)]
        if parent is not None and rows:
            parts.append(table(["option", "meaning"], rows))
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                if found is not None and not found.hidden:
                    shown(found, context, depth + 1)

    shown(main, None, 1)
    return "\n\n".join(parts) + "\n"


def configuration_page() -> str:
    """All settings, from the structs of config.py."""
    parts = [
        "# Configuration",
        (
            "Made from the program. The settings of `bbq watch` and `bbq serve` are in `bbq.toml`, "
            "in variables of the environment, or typed: what is typed counts before the "
            "environment, that before the file, that before the default. "
            "[live.md](../live.md#configuration) has a file to begin with."
        ),
    ]
    for section in dict.fromkeys(key.section for key in KEYS):
        kind = type(getattr(Settings(), section)) if section else Settings
        head = [f"## [{section}]" if section else "## At the top", cell(inspect.getdoc(kind) or "")]
        rows = [
            [code(key.name), f"{code(key.typed)}<br>{code(key.variable)}", cell(key.form.takes),
             code(key.shown(key.default)), cell(key.help)]
            for key in KEYS if key.section == section
        ]  # fmt: skip
        header = ["key", "command line, environment", "takes", "default", "meaning"]
        parts += [*head, table(header, rows)]
    return "\n\n".join(parts) + "\n"


def _annotation(value: object) -> str:
    if value is inspect.Parameter.empty:
        return ""
    return value if isinstance(value, str) else getattr(value, "__name__", str(value))


def signature(found: Any) -> str:
    """Names, types and defaults, without quotes around the types."""
    try:
        given = inspect.signature(found)
    except (TypeError, ValueError):
        return "()"
    words, starred = [], False
    for one in given.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            words.append("*")
        starred = starred or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        word = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "") + one.name
        word += f": {_annotation(one.annotation)}" if _annotation(one.annotation) else ""
        if one.default is not one.empty:
            word += f" = {one.default!r}" if "0x" not in repr(one.default) else " = …"
        words.append(word)
    back = _annotation(given.return_annotation)
    inline = f"({', '.join(words)})"
    if len(inline) > 64:
        inline = "(\n" + "".join(f"    {word},\n" for word in words) + ")"
    return inline + (f" -> {back}" if back else "")


def described(found: Any) -> str:
    """A docstring as text; its examples, which are indented, stay code."""
    text = inspect.getdoc(found) or ""
    kept = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r"(?<!`)<(?=\w)", "&lt;", kept)


def python_page() -> str:
    """The public names, and the results that they return."""
    fit = bbq.fit(bbq.simulate(items=4, raters=8, comparisons=240, seed=1).arrays())
    results = [bbq.leaderboard(fit), bbq.rater_report(fit), bbq.next_pairs(fit, 2)]
    rows = [type(one[0]) for one in results]
    parts = [
        "# Python",
        "Made from the docstrings.",
        "```python\nimport bbq_plugin as bbq\n```",
        "## Functions",
    ]
    public = [name for name in bbq.__all__ if not name.startswith("__")]
    functions = [name for name in public if inspect.isfunction(getattr(bbq, name))]
    for name in sorted(functions):
        found = getattr(bbq, name)
        parts += [f"### bbq.{name}", f"```py\n{name}{signature(found)}\n```", described(found)]
    parts.append("## Classes")
    for name in sorted(set(public) - set(functions) - {"errors"}):
        parts += class_parts(f"bbq.{name}", getattr(bbq, name))
    parts.append("## Results")
    for kind in [*map(type, results), *rows]:
        parts += class_parts(kind.__name__, kind)
    parts.append("## Errors")
    parts.append("All are `bbq.BBQError`, and in `bbq.errors`.")
    errors = [
        one for one in vars(bbq.errors).values()
        if inspect.isclass(one) and issubclass(one, bbq.BBQError)
    ]  # fmt: skip
    parts.append(table(
        ["error", "meaning"],
        [[code(one.__name__), cell(inspect.getdoc(one) or "")] for one in errors],
    ))  # fmt: skip
    return "\n\n".join(parts) + "\n"


def class_parts(title: str, kind: type) -> list[str]:
    """A class: what it is, how it is made, its fields and methods."""
    parts = [f"### {title}"]
    if not issubclass(kind, BaseException):
        parts.append(f"```py\n{kind.__name__}{signature(kind).partition(' ->')[0]}\n```")
    parts.append(described(kind))
    rows, methods = [], []
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        if name.startswith("_") or name in dir(BaseException) or name in dir(tuple):
            continue
        if isinstance(found, property) or type(found).__name__ == "cached_property":
            rows.append([code(name), cell(_first(getattr(kind, name)))])
        elif isinstance(found, classmethod | staticmethod) or inspect.isfunction(found):
            made = getattr(kind, name)
            text = described(made)
            if text:
                methods.append(f"```py\n{name}{signature(made)}\n```\n\n{text}")
    if dataclasses.is_dataclass(kind):
        rows = [[code(f.name), code(f.type)] for f in dataclasses.fields(kind)
                if not f.name.startswith("_")] + rows  # fmt: skip
    if rows:
        parts.append(table(["attribute", ""], rows))
    return parts + methods


def _first(found: Any) -> str:
    return (inspect.getdoc(found) or "").partition("\n\n")[0]


#: What is run for the reference of JSON, in one folder and in this order.
RUNS = [
    "simulate --items 5 --raters 12 --comparisons 900 --guessers 0.2 --ties 0.1 -o votes.jsonl",
    "simulate --items 6 --raters 30 --comparisons 6000 --minority 0.4 --seed 2 -o divided.jsonl",
]
DOCUMENTS = {
    "bbq fit": ["fit votes.jsonl --format json", "fit divided.jsonl --format json"],
    "bbq raters": ["raters votes.jsonl --format json"],
    "bbq pairs": ["pairs votes.jsonl -n 2 --format json"],
    "bbq evaluate": ["evaluate votes.jsonl --resamples 20 --format json"],
    "bbq inspect": ["inspect votes.jsonl --format json"],
    "bbq status": ["status --store votes.db --format json"],
    "bbq formats": ["formats --json"],
}


def json_page() -> str:
    """The documents of the commands: every field, with its type and an example."""
    parts = [
        "# JSON",
        (
            "Made from what the commands print for simulated studies: every field with its type, "
            "and a value as an example. `[]` is a list, of which all elements look alike, and `{}` "
            "an object whose keys are names. A number that is not known is null. A new field may "
            "come without a new schema; a field that changes its meaning makes one."
        ),
    ]
    meanings = documented_fields()
    runner, before = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}), Path.cwd()

    def out(words: str) -> str:
        done = runner.invoke(main, shlex.split(words))
        if done.exit_code:
            raise PluginError(f"bbq {words}: {done.output}")
        return done.stdout

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for words in RUNS:
                out(words)
            Path("inbox").mkdir()
            Path("inbox/votes.jsonl").write_bytes(Path("votes.jsonl").read_bytes())
            out("watch inbox --store votes.db --out results --once")
            for title, runs in DOCUMENTS.items():
                found: dict[str, Field] = {}
                for words in runs:
                    document = json.loads(out(words))
                    walk(document, "", found)
                rows = [
                    [code(path), " or ".join(sorted(one.types)), code(one.example),
                     meanings.get(path.removeprefix("items[].").rpartition(".")[2], "")]
                    for path, one in found.items()
                ]  # fmt: skip
                parts += [
                    f"## {title}", f"Schema `{document.get('schema', '')}`.",
                    table(["field", "type", "example", "meaning"], rows),
                ]  # fmt: skip
        finally:
            os.chdir(before)
    return "\n\n".join(parts) + "\n"


@dataclasses.dataclass
class Field:
    """What was seen of a field."""

    types: set[str]
    example: str


def walk(value: Any, path: str, found: dict[str, Field]) -> None:
    """Note the type of a value and, inside it, of all others."""
    kind = {dict: "object", list: "list", str: "text", bool: "true or false", int: "number",
            float: "number", type(None): "null"}[type(value)]  # fmt: skip
    if path:
        one = found.setdefault(path, Field(set(), ""))
        one.types.add(kind)
        shown = json.dumps(value, ensure_ascii=False)
        if kind not in ("object", "list", "null") and not one.example:
            one.example = shown if len(shown) <= 40 else f"{shown[:37]}…"
    if isinstance(value, dict):
        names = any(not re.fullmatch(r"[a-z][a-z0-9_]*", key) for key in value)
        for key, inner in value.items():
            walk(inner, f"{path}{{}}" if names else f"{path}.{key}".lstrip("."), found)
    elif isinstance(value, list):
        for inner in value:
            walk(inner, f"{path}[]", found)


def documented_fields() -> dict[str, str]:
    """The meanings that the tables of report.md give to fields, by name."""
    meanings = {}
    for names, meaning in re.findall(
        r"^\| ((?:`[\w\[\]., ]+`(?:, )?)+) \| (.+) \|$",
        (ROOT / "docs" / "report.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    ):
        text = re.sub(r"\]\((?!http)", "](../", meaning)
        for name in re.findall(r"[\w]+(?:\[\]\.\w+)?", names):
            meanings[name.rpartition(".")[2]] = text
    return meanings


# -- the notebook ----------------------------------------------------------------------------------


def notebook(document: dict[str, Any]) -> str:
    """A notebook as a page, with the outputs that it was saved with."""
    parts = []
    for one in document["cells"]:
        source = "".join(one["source"])
        if one["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in one["outputs"]:
            data = output.get("data", {})
            if "text/html" in data:
                inner = "".join(data["text/html"])
                parts.append(f'<div class="output">{" ".join(inner.split())}</div>')
            else:
                text = "".join(output.get("text", data.get("text/plain", "")))
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + f"\n\nThe notebook: [tutorial.ipynb](../{NOTEBOOK})\n"
