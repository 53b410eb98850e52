"""What the integration tests share: running the program, reading its journals, comparing runs."""
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["ACCELOPT_BUILD"])
SOURCE = pathlib.Path(os.environ["ACCELOPT_SOURCE"])
PROGRAM = str(BUILD / "accelopt")
SMALL = str(SOURCE / "tests/integration/small.yaml")

ENVIRONMENT = dict(
    os.environ,
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    OMPI_MCA_rmaps_base_oversubscribe="1",
)


class Workspace:
    """A temporary working directory, removed at the end."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="accelopt-test-"))
        return self.path

    def __exit__(self, *unused):
        shutil.rmtree(self.path, ignore_errors=True)


def command(ranks, arguments):
    if ranks == 0:
        return [PROGRAM, *arguments]
    return ["mpirun", "-n", str(ranks), PROGRAM, *arguments]


def run(ranks, arguments, cwd, expect=0, timeout=300, env=None):
    """Runs to the end; fails the test when the exit code differs. Returns (stdout, stderr)."""
    done = subprocess.run(
        command(ranks, arguments), cwd=cwd, env=env or ENVIRONMENT, timeout=timeout,
        capture_output=True, text=True, check=False)
    if expect is not None and done.returncode != expect:
        sys.exit(f"{arguments}: exit code {done.returncode}, expected {expect}\n"
                 f"{done.stdout}\n{done.stderr}")
    return done.stdout, done.stderr


def start(ranks, arguments, cwd, log):
    """Starts in a process group of its own, output to a file."""
    with open(log, "ab") as out:
        return subprocess.Popen(command(ranks, arguments), cwd=cwd, env=ENVIRONMENT, stdout=out,
                                stderr=out, start_new_session=True)


def ranks_of(process):
    """Pids of the live accelopt processes below a launcher (or the process itself)."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.getpgid(int(entry.name)) != process.pid and \
               os.getsid(int(entry.name)) != process.pid:
                continue
            name = (entry / "comm").read_text().strip()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ProcessLookupError):
            continue
        if name == "accelopt" and state != "Z":  # who adopts orphans may reap them late
            found.append(int(entry.name))
    return found


def kill_group(process):
    """Ends a launcher and its ranks. Ranks have process groups of their own, and one that was just
    starting outlives its launcher: it would go on alone and hold the run's lock."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    deadline = time.time() + 10
    while ranks := ranks_of(process):
        for rank in ranks:
            try:
                os.kill(rank, signal.SIGKILL)
            except ProcessLookupError:
                pass
        check(time.time() < deadline, f"processes {ranks} survive SIGKILL")
        time.sleep(0.05)


def wait_or_kill(process, seconds):
    """Waits for the end; True when it came by itself."""
    deadline = time.time() + seconds
    while time.time() < deadline:
        if process.poll() is not None:
            return True
        time.sleep(0.02)
    kill_group(process)
    return False


def journal_records(run_directory):
    """Yields (file, type, compressed payload size) of every whole record."""
    for path in sorted(pathlib.Path(run_directory, "journal").glob("*.journal")):
        data = path.read_bytes()[8:]
        while len(data) >= 12:
            length, kind, _, _ = struct.unpack("<IHHI", data[:12])
            if len(data) < 12 + length:
                break
            yield path.name, kind, data[12:12 + length]
            data = data[12 + length:]


def check(condition, message):
    if not condition:
        sys.exit("FAILED: " + message)


def best_files(run_directory):
    return {p.name: p.read_text() for p in sorted(pathlib.Path(run_directory, "best").iterdir())}


def table(run_directory, cwd, name="summary"):
    return run(0, ["report", str(run_directory), "--table", name, "--format", "csv"], cwd)[0]
