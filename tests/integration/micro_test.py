#!/usr/bin/python3
"""The microbenchmarks of nkibench/micro compute what their references say, at their test shapes, in
both executions; at full shapes they are legal and have predictions; `accelopt calibrate` reads its
own predictions as measurements, without an error."""
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

from api_differential.formats import BY_NAME
from harness import BUILD, PROGRAM, SOURCE, check

MICRO = SOURCE / "nkibench/micro"
RUNNER = str(BUILD / "tests/integration/kernel_runner")
TENSOR = re.compile(r"(\w+)=(\w+)\[([\d,]+)\]$")
# Of the largest expected element; bf16 rounds every step.
TOLERANCE = {"float32": 2e-5, "bfloat16": 2e-2}

sys.path.insert(0, str(MICRO))
from references import REFERENCES  # noqa: E402


def manifest():
    with open(MICRO / "manifest.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def parse(text, generator):
    """The arguments as (arrays with their dtype) and the literals, in order."""
    arguments = []
    for part in text.split(";"):
        tensor = TENSOR.match(part.strip())
        if not tensor:
            arguments.append(int(part.split("=")[1]))
            continue
        shape = [int(n) for n in tensor[3].split(",")]
        dtype = BY_NAME[tensor[2]]
        # Away from zero: one kernel inverts.
        values = generator.uniform(0.5, 1.5, shape)
        arguments.append((dtype.decode(dtype.encode(values).tobytes()).reshape(shape), dtype))
    return arguments


def run_all(rows):
    jobs, blob, expected = [], bytearray(), []
    for number, row in enumerate(rows):
        arguments = parse(row["test_inputs"], np.random.default_rng(number))
        inputs = []
        for argument in arguments:
            if isinstance(argument, int):
                inputs.append({"integer": argument})
                continue
            values, dtype = argument
            blob += b"\0" * (-len(blob) % 64)
            inputs.append({"shape": values.shape, "dtype": dtype.name, "offset": len(blob)})
            blob += dtype.encode(values).tobytes()
        plain = [a if isinstance(a, int) else a[0].astype(np.float64) for a in arguments]
        expected.append((REFERENCES[row["entry"]](*plain), arguments[0][1].name))
        jobs.append(json.dumps({"id": row["name"], "source": (MICRO / row["file"]).read_text(),
                                "entry": row["entry"], "target": "trn1", "inputs": inputs}))
    with tempfile.TemporaryDirectory(prefix="accelopt-test-") as folder:
        files = pathlib.Path(folder, "in"), pathlib.Path(folder, "out")
        files[0].write_bytes(bytes(blob))
        done = subprocess.run([RUNNER, *map(str, files)], input="\n".join(jobs) + "\n",
                              capture_output=True, text=True, timeout=500, check=False)
        check(done.returncode == 0, f"kernel_runner: {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()], files[1].read_bytes(), \
            expected


def test_values():
    rows = manifest()
    replies, data, expected = run_all(rows)
    check(len(replies) == len(rows), "a reply per kernel")
    for row, reply, (reference, dtype) in zip(rows, replies, expected):
        name = row["name"]
        check(reply["outcome"] == "ok", f"{name}: {reply}")
        output = reply["outputs"][0]
        check(output["unwritten"] == 0, f"{name}: unwritten elements")
        check(tuple(output["shape"]) == reference.shape,
              f"{name}: {output['shape']} instead of {reference.shape}")
        got = BY_NAME[output["dtype"]].decode(
            data[output["offset"]:output["offset"] + output["bytes"]]).reshape(reference.shape)
        worst = np.abs(got - reference).max() / np.abs(reference).max()
        check(worst <= TOLERANCE[dtype], f"{name}: off by {worst:.2e}")


def calibrate(*arguments):
    done = subprocess.run([PROGRAM, "calibrate", "--kernels", str(MICRO), *arguments],
                          capture_output=True, text=True, timeout=500, check=False)
    check(done.returncode == 0, f"calibrate {arguments}: {done.returncode} {done.stderr[-2000:]}")
    return done.stdout


def test_predictions():
    rows = manifest()
    predicted = calibrate("--predict")
    table = {row["kernel"]: row
             for row in csv.DictReader(predicted.splitlines()[1:])}
    check(sorted(table) == sorted(row["name"] for row in rows), "a prediction per kernel")
    with tempfile.TemporaryDirectory(prefix="accelopt-test-") as folder:
        measured = pathlib.Path(folder, "measured.csv")
        measured.write_text(predicted)
        report = json.loads(calibrate("--measured", str(measured), "--json"))
    check(report["skipped"] == [], f"skipped: {report['skipped']}")
    check(report["summary"]["model"]["worst"] < 1e-4, "its own predictions are exact")
    check(all(c["exact"] == c["kernels"] for c in report["counters"]), "and so are the counters")
    # What the kernels are for: each pair moves as its mechanism says.
    time = {name: float(row["latency_ms"]) for name, row in table.items()}
    read = {name: int(row["hbm_read_bytes"]) for name, row in table.items()}
    spilled = {name: int(row["spill_save_bytes"]) for name, row in table.items()}
    check(time["dma_run_64b"] > 2 * time["dma_run_4k"], "short runs cost more per byte")
    check(time["add_sbuf_512"] > 1.5 * time["add_psum_512"], "an operand in PSUM is cheaper")
    check(time["one_chain_64"] > 1.5 * time["activate_64"] / 2, "a chain shows its latency")
    check(spilled["spill_128k"] == 0 and spilled["spill_256k"] > 0, "what does not fit is spilled")
    check(read["reload_224k"] > 2 * read["reload_128k"], "what does not fit is loaded again")
    check(time["product_bf16_512"] < time["product_128_128_512"], "bf16 takes one pass")


def test_shipped_predictions():
    """The shipped tables name every kernel, and are not stale: 25 % is no accuracy, but a reminder."""
    names = sorted(row["name"] for row in manifest())
    for target in ("trn1", "trn2"):
        file = MICRO / f"predicted_{target}.csv"
        shipped = {row["kernel"]: float(row["latency_ms"])
                   for row in csv.DictReader(file.read_text().splitlines()[1:])}
        check(sorted(shipped) == names, f"{file}: other kernels than the manifest's")
        now = csv.DictReader(calibrate("--predict", "--target", target).splitlines()[1:])
        for row in now:
            ratio = float(row["latency_ms"]) / shipped[row["kernel"]]
            check(0.75 < ratio < 1.25, f"{file}: {row['kernel']} is stale, now {ratio:.2f} times; "
                  f"accelopt calibrate --kernels nkibench/micro --predict --target {target}")


def constants(path):
    """Key to value of a machine description."""
    pairs = (line.split("#")[0].split(":") for line in path.read_text().splitlines()
             if ":" in line.split("#")[0])
    return {pair[0]: pair[1].strip() for pair in pairs}


def test_refit():
    """A refit to a machine with two other fitted constants finds them, writes a description that can
    be used, and leaves the rest alone."""
    ours = SOURCE / "configs/hardware/trn1.yaml"
    truth = {"dma_descriptor_ns": 25.0, "result_latency_ns": 220.0}
    with tempfile.TemporaryDirectory(prefix="accelopt-test-") as folder:
        device, measured, new = (pathlib.Path(folder, name)
                                 for name in ("device.yaml", "measured.csv", "new.yaml"))
        text = ours.read_text()
        for key, value in truth.items():
            text = re.sub(rf"^{key}: [\d.]+", f"{key}: {value}", text, flags=re.MULTILINE)
        device.write_text(text)
        measured.write_text(calibrate("--predict", "--target", str(device)))
        arguments = ["--measured", str(measured), "--json"]
        report = json.loads(calibrate(*arguments, "--refit", "--ablate", "--write", str(new)))
        few = "dma_run_64b,dma_run_4k,one_chain_64"
        left_out = json.loads(calibrate(*arguments, "--problems", few, "--leave-one-out"))
        again = json.loads(calibrate(*arguments, "--target", str(new)))
        before, after, made = constants(ours), constants(new), constants(device)
        sources = new.read_text()
    check(set(before) == set(after), "the same keys")
    for key, value in truth.items():
        check(abs(float(after[key]) / value - 1) < 0.05, f"{key}: {after[key]}, not {value}")
        check(made[key] != before[key], "the machine differs")
    for line in ours.read_text().splitlines():
        if "# source: " in line and "# source: fit:" not in line:
            check(line in sources, f"a documented constant moved: {line}")
    mean = {"before": report["summary"], "after": report["refit"]["summary"],
            "again": again["summary"]}
    mean = {name: summary["model"]["mean"] for name, summary in mean.items()}
    check(mean["after"] < 0.1 * mean["before"], f"the refit helps: {mean}")
    check(abs(mean["again"] - mean["after"]) < 1e-3, f"the written description is it: {mean}")
    check([k["kernel"] for k in left_out["leave_one_out"]["kernels"]] == few.split(","),
          "a fit without each kernel")
    check({a["without"] for a in report["ablations"]} >= {"merge", "spills", "far_stride"},
          "an ablation per mechanism")


def test_bad_input():
    """Complaints have file and line, and exit code 2."""
    with tempfile.TemporaryDirectory(prefix="accelopt-test-") as folder:
        measured = pathlib.Path(folder, "measured.csv")
        for text, complaint in (("kernel,latency_ms\nstartup,fast\n", "measured.csv:2: 'fast'"),
                                ("kernel,latency_ms\nstart,1\n", "is 'startup' meant?"),
                                ("kernel,latency\nstartup,1\n", "lacks 'latency_ms'")):
            measured.write_text(text)
            done = subprocess.run([PROGRAM, "calibrate", "--kernels", str(MICRO), "--measured",
                                   str(measured)], capture_output=True, text=True, timeout=60,
                                  check=False)
            check(done.returncode == 2 and complaint in done.stderr,
                  f"{text!r}: {done.returncode} {done.stderr}")


def test_trainium2():
    """The commands that take a target take Trainium 2; bench prints the papers' average."""
    baseline = str(SOURCE / "nkibench/silu/baseline.py")
    config = str(SOURCE / "configs/quickstart.yaml")
    for arguments, expected in (
            (["bench", "--no-values", "--shape", "test"], "geometric mean of % of peak: "),
            (["profile", baseline, "--problem", "silu", "--shape", "test"], "silu on trn2: ok"),
            (["check", baseline, "--problem", "silu"], "ok, 0 errors")):
        done = subprocess.run([PROGRAM, *arguments, "--target", "trn2"], capture_output=True,
                              text=True, timeout=300, check=False)
        check(done.returncode == 0 and expected in done.stdout + done.stderr,
              f"{arguments}: {done.returncode} {done.stdout} {done.stderr}")
    done = subprocess.run([PROGRAM, "run", config, "--set", "target=trn2", "--dry-run"],
                          capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 0, f"run: {done.stderr}")


def main():
    test_values()
    test_trainium2()
    test_predictions()
    test_refit()
    test_bad_input()
    test_shipped_predictions()
    print("all microbenchmarks are right")


if __name__ == "__main__":
    main()
