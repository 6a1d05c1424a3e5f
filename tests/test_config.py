"""bbq.toml, the options and the variables: one table, and errors that name the key.

python tests/test_config.py      rewrites the table of docs/live.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner
from msgspec.structs import fields, replace

from bbq_plugin.analysis.leaderboard import Scale
from bbq_plugin.analysis.uncertainty import Intervals
from bbq_plugin.cli.options import Configured, configured_by
from bbq_plugin.config import (
    JUDGED_MODELS,
    KEYS,
    KEYS_BY_NAME,
    ModelSettings,
    Settings,
    load,
    load_server,
    unknown_variables,
)
from bbq_plugin.data.records import ASKABLE
from bbq_plugin.errors import SettingsError, UsageError
from bbq_plugin.live.log import LogFormat
from bbq_plugin.live.watch import NotifierChoice
from bbq_plugin.model import Priors, SignedPriors
from bbq_plugin.model.fit import MODELS, Model, Solver

PAGE = Path(__file__).resolve().parents[1] / "docs" / "live.md"
_TABLE = re.compile(r"(<!-- keys -->\n).*?(<!-- /keys -->)", re.DOTALL)

# One value for each key that is not its default, as TOML | as text.
_BOTH = {
    "folder": '"in"|in',
    "database": '"postgresql://ann@db/arena"|postgresql://ann@db/arena',
    "table": '"votes"|votes',
    "changed": '"updated_at"|updated_at',
    "store": '"a.db"|a.db',
    "study": '"fluency"|fluency',
    "out": '"written"|written',
    "recursive": "true|yes",
    "observer": '"polling"|polling',
    "settle_s": "5|5",
    "debounce_s": "1.5|1.5",
    "max_delay_s": "20.0|20",
    "rescan_s": "60|60",
    "poll_s": "1|1",
    "reconcile_s": "60|60",
    "idle_full_s": "1|1",
    "log_format": '"json"|json',
    "read.adapter": '"arena"|arena',
    "read.options": '{both_bad = "drop"}|both_bad=drop',
    "read.mapping": '"study.toml"|study.toml',
    "read.strict": "true|true",
    "read.max_skipped": '"5%"|0.05',
    "read.exports": '"increment"|increment',
    "read.keep_tags": "true|on",
    "model.model": '"bayes-bt"|bayes-bt',
    "model.priors": "[5, 0.1, 10, 2]|5,0.1,10,2",
    "model.camps": "2|2",
    "model.intervals": '"laplace"|laplace',
    "model.repeats": '"merge"|merge',
    "model.covariate": '["length_diff", "side"]|length_diff,side',
    "model.cluster": '["rater", "scene"]|rater,scene',
    "model.ties": '"half"|half',
    "model.level": "0.9|90%",
    "model.scale": '"theta"|theta',
    "model.seed": "7|7",
    "raters.false_rate": "0.1|10%",
    "raters.least": "20|20",
    "outputs.write": '["report.json"]|report.json',
    "outputs.pseudonymise": "true|1",
    "outputs.pseudonym_key_file": '"key"|key',
    "feedback.push": "true|on",
    "feedback.project": "5|5",
    "feedback.push_every_s": "300|300",
    "feedback.relabel": '"all"|all',
    "feedback.auto_apply": '["relabel"]|relabel',
    "feedback.daily_budget": "3|3",
    "alerts.alert_url_file": '"address"|address',
    "alerts.alert_command": '"tell lead"|tell lead',
    "alerts.alert_on": '["red"]|red',
}
OTHER = {key: both.split("|") for key, both in _BOTH.items()}


def value(settings: Settings, dotted: str) -> Any:
    found: Any = settings
    for part in dotted.split("."):
        found = getattr(found, part)
    return found


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "bbq.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path | None, **given: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        load(path, {}, given)
    return str(caught.value)


def test_nothing_said_gives_the_defaults() -> None:
    settings = load(None, {}, {})
    assert settings == Settings()
    assert (settings.settle_s, settings.debounce_s, settings.max_delay_s) == (2.0, 0.5, 10.0)


def test_no_two_keys_share_an_option_or_a_variable() -> None:
    for names in ([k.option for k in KEYS], [k.variable for k in KEYS], [k.name for k in KEYS]):
        assert len(set(names)) == len(names)
    assert {k.dotted for k in KEYS} == set(OTHER)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.dotted)
def test_a_key_means_the_same_in_the_file_the_environment_and_on_the_command_line(
    key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text('[mapping]\nwinner = "won"\n')
    in_file, as_text = OTHER[key.dotted]
    section = f"[{key.section}]\n" if key.section else ""
    path = toml(tmp_path, f"{section}{key.name} = {in_file}\n")
    from_file = value(load(Path(path.name), {}, {}), key.dotted)
    from_environment = value(load(None, {key.variable: as_text}, {}), key.dotted)
    assert from_file == from_environment != key.default
    path.unlink()
    typed = [as_text] if key.name == "folder" else [key.option, as_text]
    if key.typed.startswith(f"{key.option} / "):
        on = from_file is True
        typed = [key.option if on else f"--no-{key.option.removeprefix('--')}"]
    assert value(run(*typed), key.dotted) == from_file


def test_a_mapping_says_how_files_are_read(tmp_path: Path) -> None:
    path = toml(
        tmp_path, '[mapping]\nwinner = "won"\nloser = "lost"\n[read.options]\nrater = "who"'
    )
    read = load(path, {}, {}).read
    assert read.adapter == "table"
    assert read.options == {"winner": "won", "loser": "lost", "rater": "who"}
    assert "there is no key" not in refused(toml(tmp_path, "mapping = 1"))


def run(*typed: str, env: dict[str, str] | None = None) -> Settings:
    """The settings that a command with all the options has."""
    seen: list[Settings] = []

    @click.command()
    @configured_by(KEYS)
    def command(configured: Configured) -> None:
        seen.append(configured.load())

    result = CliRunner(env=env or {}).invoke(command, typed, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen[0]


def test_what_is_typed_counts_before_the_environment_and_that_before_the_file(
    tmp_path: Path,
) -> None:
    path = toml(tmp_path, "settle_s = 1\ndebounce_s = 0.1\nrescan_s = 11\n")
    env = {"BBQ_SETTLE_S": "2.5", "BBQ_DEBOUNCE_S": "0.2"}
    settings = run("--config", str(path), "--settle-s", "3", env=env)
    assert (settings.settle_s, settings.debounce_s, settings.rescan_s) == (3.0, 0.2, 11.0)
    assert run(env={"BBQ_CONFIG": str(path)}).rescan_s == 11.0


def test_an_option_of_the_adapter_typed_leaves_the_others_of_the_file(tmp_path: Path) -> None:
    path = toml(tmp_path, '[read.options]\nboth-bad = "drop"\nitems = ["a", "b"]\n')
    settings = run("--config", str(path), "-O", "both-bad=tie", "-O", "labels=1=left;2=right")
    assert settings.read.options == {
        "both_bad": "tie", "items": ["a", "b"], "labels": "1=left;2=right",
    }  # fmt: skip


def test_paths_in_the_file_are_relative_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "etc"
    inner.mkdir()
    path = toml(inner, 'folder = "votes"\nstore = "/var/bbq.db"\n[outputs]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = load(path, {"BBQ_OUT": "out"}, {})
    assert (settings.folder, settings.store) == (inner / "votes", Path("/var/bbq.db"))
    assert settings.out == Path("out")
    assert load(None, {"BBQ_STORE": "~/a.db"}, {}).store == tmp_path / "a.db"


def test_the_usual_file_is_found_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml(tmp_path, "settle_s = 9\n")
    monkeypatch.chdir(tmp_path)
    assert run().settle_s == 9.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("setle_s = 3", "there is no key 'setle_s'; did you mean 'settle_s'?"),
        ("adapter = 'arena'", "there is no key 'adapter'; did you mean 'read.adapter'?"),
        ("settle-s = 3", "there is no key 'settle-s'; did you mean 'settle_s'?"),
        ("[raeters]\nleast = 3", "there is no key 'raeters'; did you mean 'raters'?"),
        ("settle_s = 'fast'", "settle_s is 'fast'; expected seconds, a number of at least 0"),
        ("settle_s = -1", "settle_s is -1; expected seconds, a number of at least 0"),
        ("settle_s = nan", "settle_s is nan; expected seconds"),
        ("settle_s = true", "settle_s is True; expected seconds"),
        ("recursive = 1", "recursive is 1; expected true or false"),
        ("folder = 3", "folder is 3; expected a path"),
        ("observer = 'poling'", ("observer is 'poling'; expected one of auto, native, polling; did "
         "you mean 'polling'?")),
        ("[model]\nlevel = 95", ("model.level is 95; expected a probability between 0 and 1, such "
         "as 0.95; did you mean 0.95?")),
        ("[model]\npriors = [1, 2]", "model.priors is [1, 2]; expected auto, paper or four"),
        ("[model]\npriors = 'papper'", ("model.priors is 'papper'; expected auto, paper or four "
         "numbers a,b,alpha,beta; did you mean 'paper'?")),
        ("[model]\nseed = 1.5", "model.seed is 1.5; expected a whole number of at least 0"),
        ("[raters]\nleast = 0", "raters.least is 0; expected a whole number of at least 1"),
        ("[read]\nmax_skipped = 5", "read.max_skipped is 5; expected a share"),
        ("read = 'arena'", "read is 'arena'; expected a table, [read]"),
        ("[read]\noptions = 'x'", "read.options is 'x'; expected a table"),
        ("[outputs]\nwrite = ['report.jsn']", ("outputs.write is ['report.jsn']; 'report.jsn' is "
         "none of report.json, leaderboard.csv, raters.csv, report.html; did you mean "
         "'report.json'?")),
        ("settle_s = ", "not valid TOML ("),
        ("debounce_s = 3\nmax_delay_s = 2", "max_delay_s is 2 and debounce_s 3"),
        ("[read]\nadapter = 'areena'", "did you mean 'arena'?"),
        ("[read]\nadapter = 'arena'\n[read.options]\nboth_bda = 'tie'", "did you mean 'both_bad'?"),
        ("[read]\nadapter = 'arena'\noptions = {both_bad = 'x'}", "both_bad is 'x'; expected"),
    ],
)  # fmt: skip
def test_an_error_names_the_key_the_value_and_what_is_expected(
    text: str, says: str, tmp_path: Path
) -> None:
    path = toml(tmp_path, text)
    message = refused(path)
    assert says in message
    if "did you mean 'arena'" not in says and "both_bad" not in says and "max_delay" not in says:
        assert message.startswith(f"{path}: ")


def test_a_file_that_is_not_there_or_not_text_is_refused_by_name(tmp_path: Path) -> None:
    assert "none.toml: cannot be read (No such file" in refused(tmp_path / "none.toml")
    path = tmp_path / "latin.toml"
    path.write_bytes(b"folder = '\xe9'")
    assert "latin.toml: the text is not UTF-8" in refused(path)


def test_wrong_use_on_the_command_line_and_in_the_environment_is_told_by_its_name() -> None:
    @click.command()
    @configured_by(KEYS)
    def command(configured: Configured) -> None:
        configured.load()

    result = CliRunner().invoke(command, ["--settle-s", "soon"])
    assert result.exit_code == 2
    assert "'--settle-s': 'soon': expected seconds" in " ".join(result.output.split())
    twice = CliRunner().invoke(command, ["-O", "a=1", "-O", "a=2"])
    assert "'a' is given twice" in twice.output
    with pytest.raises(SettingsError, match="BBQ_SETTLE_S is 'soon'; expected seconds"):
        load(None, {"BBQ_SETTLE_S": "soon"}, {})


def test_an_empty_variable_says_nothing_and_a_misspelt_one_is_told() -> None:
    assert load(None, {"BBQ_ADAPTER": ""}, {}).read.adapter is None
    assert unknown_variables({"BBQ_SETLE_S": "1"}) == [
        "the variable BBQ_SETLE_S is not known; did you mean 'BBQ_SETTLE_S'?"
    ]
    assert unknown_variables({"BBQ_SERVICE_HOST": "x", "BBQ_THREADS": "1", "HOME": "/"}) == []


def test_a_path_that_a_command_needs_is_asked_for_by_all_its_names() -> None:
    with pytest.raises(SettingsError, match=r"store is not given.*--store.*BBQ_STORE.*bbq\.toml"):
        Settings().path("store")
    assert replace(Settings(), store=Path("a.db")).path("store") == Path("a.db")


def test_priors_reach_the_fit_as_it_takes_them() -> None:
    assert load(None, {}, {}).model.fit_priors() == "auto"
    assert load(None, {}, {"model": "crowd-bt"}).model.fit_priors() == "auto"
    assert load(None, {}, {"priors": "4,0.2,8,3"}).model.fit_priors() == Priors(4, 0.2, 8, 3)
    signed = load(None, {}, {"model": "bbq-signed", "priors": "5,0.1,10,2,1"}).model
    assert signed.fit_priors() == SignedPriors(5, 0.1, 10, 2, 1)


def test_settings_can_be_read_again_and_compared(tmp_path: Path) -> None:
    path = toml(tmp_path, "settle_s = 1\n")
    configured = Configured(path, {})
    before = configured.load()
    assert configured.load() == before
    toml(tmp_path, "settle_s = 4\n")
    assert configured.load() == replace(before, settle_s=4.0)


def test_the_choices_of_the_settings_are_those_of_what_they_are_for() -> None:
    words = {key.name: key.words for key in KEYS_BY_NAME.values()}
    for name, kind in {
        "model": Model, "solver": Solver, "intervals": Intervals, "scale": Scale,
        "log_format": LogFormat, "observer": NotifierChoice,
    }.items():  # fmt: skip
        assert words[name] == get_args(kind)
    assert words["auto_apply"] == ASKABLE
    judged = tuple(name for name, model in MODELS.items() if model.gives_verdicts)
    assert judged == JUDGED_MODELS


def test_the_section_of_a_server_is_read_from_the_same_file(tmp_path: Path) -> None:
    path = toml(tmp_path, 'settle_s = 1\n[label_studio]\nurl = "http://ls"\ntoken_file = "token"\n')
    found = load_server(path, "label_studio")
    assert (found.url, found.token_file) == ("http://ls", tmp_path / "token")
    assert load(path, {}, {}).settle_s == 1.0
    assert load_server(toml(tmp_path, ""), "label_studio").url is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[label_studio]\nurll = 'x'",
            "no key 'label_studio.urll'; did you mean 'label_studio.url'?",
        ),
        ("[label_studio]\nurl = 3", "label_studio.url is 3; expected text that is not empty"),
        ("label_studio = 'x'", "label_studio is 'x'; expected a table, [label_studio]"),
    ],
)
def test_a_wrong_section_of_a_server_is_refused_by_its_key(
    text: str, says: str, tmp_path: Path
) -> None:
    path = toml(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load_server(path, "label_studio")
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model": "crowd-bt", "priors": "auto"}, "crowd-bt has priors of its own"),
        ({"model": "bbq-signed", "priors": "4,0.2,8,3"}, "give five numbers a,b,informed"),
        ({"priors": "4,0.2,8,3,1"}, "priors has 5 numbers; bbq takes four"),
    ],
)
def test_priors_that_a_model_does_not_have_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load(None, {}, given)
    parsed: dict[str, Any] = {name: KEYS_BY_NAME[name].parse(text) for name, text in given.items()}
    with pytest.raises(UsageError, match=says):
        ModelSettings(**parsed).fit_priors()


def documented() -> str:
    """The table of all keys, as Markdown."""
    lines = ["| key | takes | default | command line | environment | meaning |", "|---" * 6 + "|"]
    for key in KEYS:
        default = key.shown(key.default)
        cells = (
            f"`{key.dotted}`", key.form.takes, f"`{default}`" if default else "",
            f"`{key.typed}`", f"`{key.variable}`", key.help,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_documentation_has_the_table_of_the_keys() -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = _TABLE.search(page)
    assert found is not None
    assert found[0] == f"{found[1]}{documented()}{found[2]}", "run: python tests/test_config.py"


def test_every_field_of_the_settings_is_a_key() -> None:
    sections = {key.section for key in KEYS} - {None}
    assert {one.name for one in fields(Settings)} == sections | {
        key.name for key in KEYS if key.section is None
    }


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    text = _TABLE.sub(lambda found: f"{found[1]}{documented()}{found[2]}", text)
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{PAGE.name} is up to date\n")
