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


def main():
    test_values()
    test_predictions()
    print("all microbenchmarks are right")


if __name__ == "__main__":
    main()
