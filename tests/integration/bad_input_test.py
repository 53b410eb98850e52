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


ENDPOINT = """base: {small}
agents: {{planner: {{model: m}}}}
models:
  m:
    provider: openai
    url: http://127.0.0.1:9/v1
    name: gpt-x
"""


def models(work):
    """What can be wrong about models is told with file and line, before anything is asked."""
    good = ENDPOINT.format(small=SMALL)

    def refused(change, line, *needles):
        text = good
        for old, new in change:
            check(old in text, f"{old!r} is not in the configuration")
            text = text.replace(old, new)
        (work / "m.yaml").write_text(text)
        for arguments in (["run", "m.yaml"], ["run", "m.yaml", "--dry-run"]):
            expect(arguments, work, USAGE, f"m.yaml:{line}: ", *needles)

    (work / "m.yaml").write_text(good)
    expect(["run", "m.yaml", "--dry-run"], work, 0, "at most")
    more = "    name: gpt-x\n    "
    refused([("provider: openai", "provider: opnai")], 4, "did you mean 'openai'?")
    refused([("    url: http://127.0.0.1:9/v1\n", "")], 4, "url is missing")
    refused([("http://", "ftp://")], 6, "http")
    refused([("http://127.0.0.1:9/v1", "http://user:word@host/v1")], 6, "user name")
    refused([("http://127.0.0.1:9/v1", "'http:// host/v1'")], 6, "address")
    refused([("    name: gpt-x\n", more + "key_env: ACCELOPT_NO_SUCH_KEY\n")], 8,
            "ACCELOPT_NO_SUCH_KEY")
    refused([("    name: gpt-x\n", more + "key_env: sk-0123456789abcdef\n")], 8, "key_env")
    refused([("    name: gpt-x\n", more + "region: us-west-2\n")], 4, "region",
            "means nothing to the provider openai")
    refused([("    name: gpt-x\n", more + "context_tokens: 20000\n")], 8, "max_tokens (20000)")
    refused([("    name: gpt-x\n", more + "max_tokens: 0\n")], 8, "max_tokens")
    refused([("    name: gpt-x\n", more + "max_tries: 0\n")], 8, "max_tries")
    refused([("    name: gpt-x\n", more + "budget_usd: 1\n")], 4, "no price", "gpt-x")
    refused([("models:", "budget: {usd: 1}\nmodels:")], 5, "no price", "gpt-x")
    refused([("models:", "budget: {usd: 1, problem_usd: 2}\nmodels:")], 3, "problem_usd")
    refused([("models:", "budget: {usd: 1}\nmodels:"),
             ("    name: gpt-x\n", more + "budget_usd: 2\n")], 9, "more than budget.usd")
    refused([("models:", "budget: {calls: 0}\nmodels:")], 3, "calls")
    refused([("provider: openai", "provider: anthropic"),
             ("    name: gpt-x\n", more + "thinking: 30000\n")], 8, "thinking")
    refused([("provider: openai", "provider: anthropic")], 4, "key_env is missing")
    replay = [("provider: openai", "provider: replay"), ("    url: http://127.0.0.1:9/v1\n", "")]
    refused([*replay, ("name: gpt-x", "run: nowhere")], 4, "nowhere", "no recorded run")
    refused([*replay, ("name: gpt-x", "run: nowhere\n    fallback: x")], 7, "fallback")
    refused([("planner: {model: m}", "planner: {model: m}, fixer: {model: builtin}")], 2, "fixer")
    expect(["run", "m.yaml", "--wait"], work, USAGE, "m.yaml")
    (work / "p.yaml").write_text("prices:\n  - {models: [gpt-x], input: -1, output: 1,\n"
                                 "     source: s, date: 2026-01-01}\n")
    (work / "m.yaml").write_text(good + "prices: p.yaml\n")
    expect(["run", "m.yaml"], work, USAGE, "p.yaml:2: ", "input")
    (work / "r.yaml").write_text("base_s: 1\noutcomes:\n  auth: {}\n")
    (work / "m.yaml").write_text(good + "retry: r.yaml\n")
    expect(["run", "m.yaml"], work, USAGE, "r.yaml:3: ", "auth")


with Workspace() as work:
    models(work)
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
    profile(work, "import.py", "import os\n" + silu_with("os.getcwd()"), "rejected/forbidden_api",
            "os")
    profile(work, "empty.py", "", "rejected/", code=USAGE)
print("ok")
