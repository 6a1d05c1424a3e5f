"""`bbq serve` reads bbq.toml as `bbq watch` does; what is typed counts first."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from click.testing import CliRunner

from bbq_plugin.cli import main
from tests.live.server.serving import SECRET, run, serving

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
store = "of-the-file.db"
[raters]
least = 7
[feedback]
push = true
project = 12
auto_apply = ["relabel"]
daily_budget = 3
[label_studio]
url = "http://127.0.0.1:9"
token_file = "token"
"""


def written(folder: Path, text: str = FILE) -> Path:
    token = folder / "token"
    token.write_text("0123456789abcdef0123456789abcdef01234567")
    token.chmod(0o600)
    file = folder / "bbq.toml"
    file.write_text(text)
    return file


def test_feedback_is_as_the_file_says_unless_something_else_is_typed(tmp_path: Path) -> None:
    config = ("--config", str(written(tmp_path)))
    with serving(tmp_path / "typed.db", *config) as here:
        page = here.ask("/feedback").text
        assert "Project 12." in page
        assert "Applied automatically: relabel, at most 3 writes in 24 hours" in page
    assert (tmp_path / "typed.db").exists()
    assert not (tmp_path / "of-the-file.db").exists()
    typed = (*config, "--daily-budget", "9", "--project", "5", "--auto-apply", "tab")
    with serving(tmp_path / "typed.db", *typed) as here:
        page = here.ask("/feedback").text
        assert "Project 5." in page
        assert "Applied automatically: tab, at most 9 writes in 24 hours" in page
    with serving(tmp_path / "typed.db", *config, "--no-push", "--auto-apply", "") as here:
        assert "without asking" not in here.ask("/feedback").text


def test_a_file_that_makes_no_sense_is_refused_with_its_key(tmp_path: Path) -> None:
    for text, said in [
        ("[feedback]\npush = true\n", "name the project"),
        ("[feedback]\nauto_apply = ['relabel']\nproject = 5\n", "--push"),
        ("[feedback]\nauto_aply = ['relabel']\n", "did you mean 'feedback.auto_apply'?"),
        ("[raters]\nleast = 0\n", "raters.least is 0"),
        ("[model]\nmodel = 'bayes-bt'\n", "model.model is 'bayes-bt'"),
        ("", "store is not given"),
    ]:
        store = f"store = '{tmp_path / 'state.db'}'\n" if text else ""
        file = written(tmp_path, store + text)
        done = run("serve", "--port", "0", "--config", str(file))
        assert done.returncode == 2, done.stderr
        assert said in done.stderr


def test_secrets_that_others_can_read_and_addresses_that_others_can_hear_are_warned_of(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, FILE.replace("127.0.0.1:9", "label-studio.invalid"))
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o640)
    (tmp_path / "token").chmod(0o644)
    given = ("--config", str(file), "--webhook-secret-file", str(secret))
    with serving(tmp_path / "state.db", *given) as here:
        here.wait_until(lambda: here.url, "the start")
    assert here.log.count(f"chmod 600 {tmp_path / 'token'}") == 1
    assert here.log.count(f"chmod 600 {secret}") == 1
    assert here.log.count("http://label-studio.invalid: the token is sent without") == 1
    for path in (secret, tmp_path / "token"):
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    with serving(tmp_path / "state.db", *given, "--url", "http://127.0.0.1:9") as here:
        here.wait_until(lambda: here.url, "the start")
    assert "Warning" not in here.log


def test_who_comes_through_a_proxy_is_not_this_machine(tmp_path: Path) -> None:
    with serving(tmp_path / "state.db") as here:
        assert here.ask("/").status == 200
        for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP"):
            assert here.ask("/", headers={header: "127.0.0.1"}).status == 403
    token = "a-token-of-the-page-0123456789"  # noqa: S105
    with serving(tmp_path / "state.db", BBQ_PAGE_TOKEN=token) as here:
        passed_on = {"X-Forwarded-For": "127.0.0.1"}
        assert here.ask("/", headers=passed_on).status == 401
        form = {"Origin": here.url, "Content-Type": "application/x-www-form-urlencoded"}
        login = here.ask("/login", f"token={token}".encode(), {**form, **passed_on})
        cookie = login.headers["set-cookie"].split(";")[0]
        assert here.ask("/", headers={**passed_on, "Cookie": cookie}).status == 200


def test_a_push_beside_a_running_server_is_told_where_to_go(tmp_path: Path) -> None:
    store = tmp_path / "state.db"
    place = {"LABEL_STUDIO_URL": "http://127.0.0.1:9", "LABEL_STUDIO_API_KEY": "0" * 40}
    with serving(store):
        for what in ("--apply", "--undo"):
            words = ["push", "--project", "5", "--store", str(store), what]
            done = CliRunner(env=place).invoke(main, words, prog_name="bbq")
            assert done.exit_code == 1
            assert "stop that one first" in done.stderr
            assert "use the tab Feedback of its page" in done.stderr


def test_the_mapping_of_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    mapping = tmp_path / "study.toml"
    mapping.write_text("[mapping]\nleft = 'a'\nright = 'b'\nwinner = 'choice'\n")
    given = ("--store", str(tmp_path / "state.db"), "--mapping", str(mapping))
    done = run("serve", "--port", "0", "--insecure-webhook", *given)
    assert done.returncode == 2, done.stderr
    assert "is one of table files" in done.stderr


def test_events_are_read_as_the_mapping_says(tmp_path: Path) -> None:
    mapping = tmp_path / "study.toml"
    mapping.write_text("[mapping]\nadapter = 'label-studio'\nitems = 'src_one,src_two'\n")
    data = {"t1": "a text", "t2": "another", "src_one": "oak", "src_two": "elm"}
    choice = {"from_name": "pref", "to_name": "t1", "type": "choices", "id": "x"}
    result = [{**choice, "value": {"choices": ["left"]}}]
    annotation = {"id": 7, "completed_by": 3, "result": result, "task": 1}
    event = {
        "action": "ANNOTATION_CREATED",
        "annotation": annotation,
        "task": {"id": 1, "data": data},
        "project": {"id": 5},
    }
    with serving(tmp_path / "state.db", "--mapping", str(mapping)) as here:
        assert here.send(event).status == 200
        here.wait_for(1)
