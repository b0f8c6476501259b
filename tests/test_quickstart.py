"""The ten minutes of the README, block by block, from an empty folder."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil

from tests.clusters.processes import wait_for

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETTING_UP = ("python -m venv", "pip install")  # the interpreter that runs the test has it all
EXPECTED_CODES = {"run_job": 3}  # the quickstart's job ends PARTIAL
CLUSTER = "python manage.py jobworker"
APPENDED = ", at the end"


def quickstart_blocks():
    """Yield the fenced blocks of the quickstart: (language, text)."""
    readme = (ROOT / "README.md").read_text()
    chapter = readme.split("\n## Ten minutes", 1)[1].split("\n## ", 1)[0]
    return [match.groups() for match in BLOCK.finditer(chapter)]


def commands_of(block):
    """Yield each command of a console block with the output that the README shows for it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        end = 1
        while "".join(lines[:end]).count('"') % 2:  # a quote goes on
            end += 1
        yield "".join(lines[:end]).strip(), "".join(lines[end:])


class Reader:
    """Somebody who does what the README says, in ``folder``."""

    def __init__(self, folder):
        self.folder = folder
        self.cluster = None
        python = str(Path(sys.executable).parent)
        self._environment = {
            **{name: value for name, value in os.environ.items() if "DJANGO" not in name},
            "PATH": f"{python}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
        }

    def write(self, block):
        """The first line of a block of Python says where it belongs."""
        title = block.splitlines()[0].removeprefix("# ")
        path = self.folder / title.removesuffix(APPENDED)
        earlier = path.read_text() if title.endswith(APPENDED) else ""
        path.write_text(f"{earlier}\n{block}")

    def run(self, command, shown):
        if command.startswith(SETTING_UP):
            return
        if command == CLUSTER:
            self._start_cluster()
            return
        result = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        said = f"$ {command}\n{result.stdout}{result.stderr}"
        expected = next((code for name, code in EXPECTED_CODES.items() if name in command), 0)
        assert result.returncode == expected, said
        assert re.search(pattern_of(shown), result.stdout), f"{said}\nThe README shows:\n{shown}"

    def stop(self):
        if self.cluster is None:
            return
        everyone = psutil.Process(self.cluster.pid).children(recursive=True)
        self.cluster.terminate()
        try:
            assert self.cluster.wait(timeout=30) == 0
        finally:
            for process in [self.cluster, *everyone]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self.cluster.wait()

    def _start_cluster(self):
        log = self.folder / "cluster.log"
        with log.open("w") as output:
            self.cluster = subprocess.Popen(
                CLUSTER.split(),
                cwd=self.folder,
                env=self._environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        wait_for(lambda: log.read_text().count("ready for work at") == 2, what=str(log))


def pattern_of(shown):
    """The output that the README shows: line after line, anything for an ellipsis."""
    pieces = (re.escape(piece.strip("\n")) for piece in shown.split("…"))
    return "(?s)" + ".*".join(pieces)


def test_the_quickstart_works_from_an_empty_folder(tmp_path):
    reader = Reader(tmp_path)
    done = []
    try:
        for language, block in quickstart_blocks():
            if language == "python":
                reader.write(block)
                continue
            for command, shown in commands_of(block):
                reader.run(command, shown)
                done.append(command)
    finally:
        reader.stop()
    assert CLUSTER in done
    assert sum("run_job" in command for command in done) == 1
    assert (tmp_path / "media").is_dir()
