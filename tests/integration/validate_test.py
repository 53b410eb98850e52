#!/usr/bin/python3
"""accelopt validate: sound problems pass, and each way to be unfit for use is named."""
import json
import shutil

from harness import SOURCE, Workspace, check, run

USAGE, UNFIT = 2, 4


def edited(work, name, **changes):
    """A copy of the template with texts of its files replaced: file=["old|new", ...]."""
    folder = work / name
    shutil.copytree(SOURCE / "nkibench/template", folder)
    for stem, replaced in changes.items():
        path = next(folder.glob(stem + ".*"))
        text = path.read_text()
        for change in replaced if isinstance(replaced, list) else [replaced]:
            old, new = change.split("|")
            check(old in text, f"{path.name} of the template holds no {old!r}")
            text = text.replace(old, new)
        path.write_text(text)
    return str(folder)


def unfit(work, folder, *needles, code=UNFIT):
    out, err = run(0, ["validate", folder, "--shape", "test"], work, expect=code)
    for needle in needles:
        check(needle in out + err, f"{folder}: no {needle!r} in\n{out}\n{err}")


def sound(work):
    """Two problems, as JSON and as text, with and without a folder of references."""
    template = edited(work, "template")
    out, _ = run(0, ["validate", "silu", template, "--shape", "test", "--json"], work)
    problems = json.loads(out)["problems"]
    check([p["problem"] for p in problems] == ["silu", template], "both problems are reported")
    for problem in problems:
        check(problem["ok"] and problem["error"] is None, f"{problem['problem']} is fit for use")
        check(problem["rule"] == "conditioned" and len(problem["inputs"]) > 3, "input sets")
        check(problem["baseline"]["outcome"] == "ok", "the baseline is verified")
        check(problem["baseline"]["tier"] == "order", "the baseline goes through every tier")
        honest = [a for a in problem["answers"] if a["honest"]]
        check([a["answer"] for a in honest] == ["float32 reference"], "one honest answer")
        check(all(a["as_it_should"] for a in problem["answers"]), "each answer is as it should")
        names = {a["answer"] for a in problem["answers"]}
        check({"zeros", "the mean", "copy of x", "bfloat16 inputs"} <= names, f"answers {names}")
    check("without shift" in {a["answer"] for a in problems[1]["answers"]}, "the term is tried")

    arguments = ["validate", template, "--shape", "test", "--cache", "cache"]
    first, _ = run(0, arguments, work)
    for needle in ("template", "float32 reference", "passes", "zeros", "fails", "baseline"):
        check(needle in first, f"no {needle!r} in\n{first}")
    check(list((work / "cache").glob("*.reference")), "references are kept")
    again, _ = run(0, arguments, work)
    check(again == first, f"references of the folder say the same:\n{first}\n{again}")


with Workspace() as work:
    sound(work)
    formula = "    return x * gain + shift|    return x * gain + 1e-12 * shift"
    unfit(work, edited(work, "faint", reference=formula),
          "task/insensitive", "'without shift' passes on every input set")
    unfit(work, edited(work, "unscaled", reference="def scale|def size"),
          "reference_failed", "scale(): the file defines no scale()")
    unfit(work, edited(work, "failing", reference="def forward(x, gain, shift):|"
                       "def forward(x, gain, shift):\n    x = gain.no_such_name"),
          "reference_failed", "forward(): reference.py:", "no_such_name")
    unfit(work, edited(work, "tight", problem="constant: 8|constant: 1"),
          "the float32 reference fails on input set")
    # A running sum depends on all rows before: it cannot be computed some rows at a time.
    running = ["np.abs(x * gain)|np.cumsum(np.abs(x * gain), axis=0)",
               "return x * gain|return np.cumsum(x * gain, axis=0)"]
    unfit(work, edited(work, "running", reference=running),
          "the float32 reference fails on input set")
    unfit(work, edited(work, "whole", reference=running, problem="blocks: {x: 0, y: 0}|"),
          "its baseline is incorrect/")
    unfit(work, edited(work, "wrong", baseline="nl.add(product|nl.subtract(product"),
          "its baseline is incorrect/")
    unfit(work, edited(work, "broken", problem="tolerance: 2e-5|tolerance: [2e-5"),
          "problem.yaml:", code=USAGE)
    unfit(work, edited(work, "typo", problem="distribution: normal}|distribution: normale}"),
          "problem.yaml:", "did you mean 'normal'?", code=USAGE)
    unfit(work, edited(work, "axis", problem="blocks: {x: 0|blocks: {x: 2"),
          "problem.yaml:", "axis of the tensor", code=USAGE)
    unfit(work, "sillu", "did you mean 'silu'?", code=USAGE)
    unfit(work, str(work / "nowhere"), "no problem.yaml", code=USAGE)
print("ok")
