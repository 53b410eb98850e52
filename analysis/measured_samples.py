#!/usr/bin/python3
"""Compares predictions with public measurements of kernels outside NKIBench.

    measured_samples.py ACCELOPT NKI_SAMPLES ACCELOPT_PAPER [--match TEXT]

ACCELOPT is the program; the others are checkouts of aws-neuron/nki-samples (commit 1b9dd62) and of
zhang677/AccelOpt. The measurements are in nkibench/measured/public_samples_trn1.csv. Every kernel is
run by `accelopt profile --no-values`; the last lines give median and mean error of the model and of
the stream roofline, all and by confidence."""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import tempfile

from nki_samples import extract

TABLE = pathlib.Path(__file__).resolve().parent.parent / "nkibench/measured/public_samples_trn1.csv"
# AccelOpt's harness puts these before a kernel file.
HEADER = """import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import neuronxcc.nki.isa as nisa
from neuronxcc.nki import trace
from neuronxcc.nki.language import par_dim
"""


def prepared(row, checkouts):
    """The text of a kernel without the host code of its file."""
    root = checkouts[row["repository"]]
    path = root / row["file"]
    if row["repository"] == "AccelOpt":
        return HEADER + path.read_text()
    imports, bodies = extract(path, root, row["entry"])
    parts = [part for parts in bodies.values() for part in parts]
    return "\n".join(dict.fromkeys(imports)) + "\n\n" + "\n\n".join(parts) + "\n"


def command(row, program, kernel):
    words = [program, "profile", str(kernel), "--entry", row["entry"], "--no-values", "--json"]
    for text in row["inputs"].split():
        words += ["--input", text]
    for text in row["arguments"].split():
        words += ["--kwarg", text]
    return words + (["--grid", row["grid"]] if row["grid"] else [])


def summary(name, errors):
    if errors:
        model, roofline = zip(*errors)
        print(f"{name}: {len(errors)} kernels, model median {statistics.median(model):.1f} % mean "
              f"{statistics.mean(model):.1f} %, stream roofline median "
              f"{statistics.median(roofline):.1f} % mean {statistics.mean(roofline):.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("accelopt")
    parser.add_argument("nki_samples", type=pathlib.Path)
    parser.add_argument("accelopt_paper", type=pathlib.Path)
    parser.add_argument("--match", default="")
    arguments = parser.parse_args()
    checkouts = {"nki-samples": arguments.nki_samples, "AccelOpt": arguments.accelopt_paper}
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    errors = {}
    print(f"{'kernel':20} {'predicted ms':>12} {'measured ms':>12} {'error %':>8} "
          f"{'roofline ms':>12} {'error %':>8}  bound confidence")
    for row in csv.DictReader(lines):
        if arguments.match not in row["kernel"]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            kernel = pathlib.Path(folder) / "kernel.py"
            kernel.write_text(prepared(row, checkouts))
            done = subprocess.run(command(row, arguments.accelopt, kernel), capture_output=True,
                                  text=True, timeout=900, check=False)
        reply = json.loads(done.stdout) if done.stdout.startswith("{") else None
        profile = reply and reply["profile"]
        if not profile or not profile.get("latency"):
            why = (f"{reply['outcome']}/{reply['reason']}: {reply['diagnostics'][0]['message']}"
                   if reply else done.stderr.strip())
            print(f"{row['kernel']:20} {why}", flush=True)
            continue
        measured = float(row["latency_ms"])
        error = [100 * (profile[key] / measured - 1) for key in ("latency", "stream_roofline_ms")]
        for group in ("all", profile["confidence"]):
            errors.setdefault(group, []).append([abs(e) for e in error])
        print(f"{row['kernel']:20} {profile['latency']:12.4f} {measured:12.4f} {error[0]:+8.1f} "
              f"{profile['stream_roofline_ms']:12.4f} {error[1]:+8.1f}  {profile['bound']:5} "
              f"{profile['confidence']}", flush=True)
    for group in ("all", "high", "medium", "low"):
        summary(group, errors.get(group))


if __name__ == "__main__":
    main()
