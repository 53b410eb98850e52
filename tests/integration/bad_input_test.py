#!/usr/bin/python3
"""Bad input of every kind: a clear message, the right exit code, nothing left running."""
import pathlib

from harness import SMALL, SOURCE, Workspace, check, run

USAGE, EXISTS = 2, 3


def expect(arguments, work, code, *needles, ranks=0):
    out, err = run(ranks, arguments, work, expect=code)
    for needle in needles:
        check(needle in out + err, f"{arguments}: no {needle!r} in\n{out}\n{err}")


def profile(work, name, source, *needles, code=USAGE):
    path = pathlib.Path(work, name)
    path.write_text(source)
    expect(["profile", str(path), "--problem", "silu", "--shape", "test"], work, code, *needles)


def silu_with(line):
    source = (SOURCE / "nkibench/silu/baseline.py").read_text().splitlines()
    start = next(i for i, text in enumerate(source) if text.startswith("def "))
    while not source[start].rstrip().endswith(":"):
        start += 1
    return "\n".join(source[:start + 1] + ["    " + line] + source[start + 1:]) + "\n"


with Workspace() as work:
    small = pathlib.Path(SMALL).read_text()
    expect(["run", "missing.yaml"], work, USAGE, "missing.yaml")
    (work / "broken.yaml").write_text("run: {name: [\n")
    expect(["run", "broken.yaml"], work, USAGE, "broken.yaml:")
    (work / "typo.yaml").write_text(small.replace("beam: 2", "baem: 2"))
    expect(["run", "typo.yaml"], work, USAGE, "typo.yaml:6", "baem", "beam")
    (work / "unknown.yaml").write_text(small.replace("[silu, ", "[sillu, "))
    expect(["run", "unknown.yaml"], work, USAGE, "sillu", "silu")
    expect(["run", "unknown.yaml"], work, USAGE, "sillu", ranks=3)
    (work / "taken").mkdir()
    expect(["run", SMALL, "--set", "run.directory=taken"], work, EXISTS, "taken", "--resume")
    expect(["run", SMALL, "--resume"], work, USAGE, "resume")
    expect(["rnu"], work, USAGE)
    expect(["report", "nowhere"], work, USAGE, "nowhere")
    expect(["profile", "nowhere.py", "--problem", "silu"], work, USAGE, "nowhere.py")
    check(not (work / "runs").exists() or not list((work / "runs").iterdir()),
          "a refused run left a directory behind")

    profile(work, "syntax.py", "def kernel(x:\n", "syntax_error", "syntax.py:1")
    profile(work, "endless.py", silu_with("while True: pass"), "resource_limit/steps")
    profile(work, "huge.py", silu_with("waste = nl.ndarray((50000, 50000), dtype=nl.float32, "
                                       "buffer=nl.shared_hbm)"), "resource_limit/memory")
    profile(work, "file.py", silu_with("open('/etc/passwd')"),
            "rejected/forbidden_api", "open")
    profile(work, "import.py", "import os\n" + silu_with("pass"), "rejected/forbidden_api",
            "os")
    profile(work, "empty.py", "", "rejected/", code=USAGE)
print("ok")
