"""Events of the system where they can be had, and looking for oneself where not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bbq_plugin.live.watch import chosen, file_system
from tests.waiting import HANG_S

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /mnt/team\\040share rw shared:2 - nfs4 server:/votes rw,vers=4.2
41 40 8:2 / /mnt/team\\040share/local rw - xfs /dev/sdb1 rw
42 22 0:36 / /mnt/team rw - tmpfs tmpfs rw
43 22 0:37 / /mnt/bucket rw - fuse.rclone bucket rw
a line of a kernel to come
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv/votes", "ext4"),
        ("/mnt/team share/votes", "nfs4"),
        ("/mnt/team share", "nfs4"),
        ("/mnt/team share/local/x", "xfs"),
        ("/mnt/team shared", "ext4"),
        ("/mnt/team", "tmpfs"),
    ],
)
def test_the_file_system_of_a_folder_is_that_of_the_nearest_mount(
    tmp_path: Path, folder: str, kind: str
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert file_system(Path(folder), mounts) == kind
    assert file_system(Path(folder), tmp_path / "no such file") is None


@pytest.mark.parametrize(
    ("kind", "notifier"),
    [("ext4", "native"), ("nfs4", "polling"), ("cifs", "polling"), ("fuse.sshfs", "polling")],
)
def test_network_mounts_are_looked_through_because_others_change_them(
    kind: str, notifier: str
) -> None:
    picked, why = chosen("auto", Path("/srv"), lambda _: kind)
    assert picked.name == notifier
    assert (why is None) == (notifier == "native")
    assert why is None or kind in why
    assert chosen("native", Path("/srv"), lambda _: kind)[0].name == "native"
    assert chosen("polling", Path("/srv"), lambda _: kind)[0].name == "polling"


WATCH_WITHOUT_INOTIFY = """
import sys, threading
from pathlib import Path
Path("/proc/sys/user/max_inotify_instances").write_text("0")
from bbq_plugin.live.health import Problems
from bbq_plugin.live.watch import Arrivals, Waits
from bbq_plugin.live.watch import chosen
folder, choice = Path(sys.argv[1]), sys.argv[2]
arrivals = Arrivals(
    folder,
    chosen(choice, folder)[0],
    waits=Waits(settle_s=0.1, debounce_s=0.05, max_delay_s=60, rescan_s=60),
    fall_back=choice == "auto",
    problems=Problems(lambda event, **fields: print(event, fields["reason"])),
)
arrivals.gather()
(folder / "a.jsonl").write_text("x")
print([offer.name for offer in arrivals.wait(threading.Event())])
"""


@pytest.mark.parametrize("choice", ["auto", "native"])
def test_without_free_inotify_instances_auto_looks_for_itself_and_says_so(
    tmp_path: Path, choice: str
) -> None:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-Ur", "true"], check=False).returncode:
        pytest.skip("no user namespaces here, in which alone the limit can be set for a test")
    command = [unshare, "-Ur", sys.executable, "-c", WATCH_WITHOUT_INOTIFY, str(tmp_path), choice]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    if choice == "native":
        assert done.returncode == 1
        assert "inotify" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        told, offered = done.stdout.splitlines()
        assert told.startswith("polling no events from the system")
        assert offered == "['a.jsonl']"
