#!/usr/bin/python3
"""Every NKI API against numpy over random shapes, views, masks and dtypes.

    api_differential_test.py [--cases N] [--seed S] [--api NAME [--case K]] [--keep DIR] [--jobs J]

A case is a small kernel with one call in its middle; the expected elements come from the reading of
the documentation in `api_differential/`, and each element of each output is compared: exactly where
the arithmetic is exact or rounded once, else within the bound of its function. Cases that the
documentation forbids are drawn as well and must be refused. Every API of the product's table must
have an oracle. A case is named by seed, API and number, whatever else runs."""
import argparse
import collections
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import time
import zlib

import numpy as np

from api_differential import ORACLES, REFUSALS, WITHOUT_ORACLE
from api_differential.formats import BY_NAME
from api_differential.kernel import Kernel
from api_differential.known import KNOWN
from harness import BUILD, check

RUNNER = str(BUILD / "tests/integration/kernel_runner")
CHUNK = 200  # cases of one run of the runner
SHARE_FORBIDDEN = 0.12


def build(seed, name, number):
    """The case: of an API, or of "forbidden NAME"."""
    refused = name.startswith("forbidden ")
    draws = [draw for api, draw in REFUSALS if api == name[10:]] if refused else ORACLES[name]

    def draw(data):
        kernel = Kernel(name, [seed, zlib.crc32(name.encode()), number], data)
        kernel.refused = refused
        draws[number % len(draws)](kernel)
        return kernel

    kernel = draw(0)
    if not kernel.refused and kernel.chance(0.2):
        return kernel.repeated(draw(1)) or kernel
    return kernel


def pack(kernels):
    """(jobs, bytes of all inputs)."""
    jobs, blob = [], bytearray()
    for number, kernel in enumerate(kernels):
        inputs = []
        for _, values, dtype in kernel.inputs:
            blob += b"\0" * (-len(blob) % 64)
            inputs.append({"shape": values.shape, "dtype": dtype.name, "offset": len(blob)})
            blob += dtype.encode(values).tobytes()
        jobs.append(json.dumps({"id": number, "source": kernel.source(), "target": "trn1",
                                "core_version": kernel.core_version, "grid": kernel.grid,
                                "inputs": inputs}))
    return jobs, bytes(blob)


def run(kernels):
    """The runner's replies, with arrays; a crash is the reply of the case that it happened in."""
    replies = []
    jobs, blob = pack(kernels)
    with tempfile.TemporaryDirectory(prefix="accelopt-test-") as folder:
        inputs, outputs = pathlib.Path(folder, "in"), pathlib.Path(folder, "out")
        inputs.write_bytes(blob)
        while len(replies) < len(jobs):
            done = subprocess.run([RUNNER, str(inputs), str(outputs)],
                                  input="\n".join(jobs[len(replies):]) + "\n",
                                  capture_output=True, text=True, timeout=500, check=False)
            data = outputs.read_bytes()
            for line in done.stdout.splitlines():
                reply = json.loads(line)
                for output in reply.get("outputs", []):
                    at = output["offset"]
                    output["data"] = data[at:at + output["bytes"]]
                replies.append(reply)
            if len(replies) < len(jobs):
                replies.append({"outcome": "crashed",
                                "message": f"exit {done.returncode}: {done.stderr[-2000:]}"})
    return replies


def verdict(kernel, reply):
    """What is wrong with a reply, or ""."""
    outcome = reply["outcome"]
    found = f"{outcome}/{reply.get('code', '')}: {reply.get('message', '')}"
    if kernel.refused:
        if outcome not in ("rejected", "unsupported"):
            return f"must be refused, got {found}"
        if kernel.code and reply.get("code") != kernel.code:
            return f"must be refused as {kernel.code}, got {found}"
        return ""
    if outcome != "ok":
        return found
    if len(reply["outputs"]) != len(kernel.outputs):
        return f"{len(reply['outputs'])} outputs"
    for (name, expected), output in zip(kernel.outputs, reply["outputs"]):
        shape = tuple(output["shape"])
        if shape != expected.value.shape or output["dtype"] != expected.dtype.name:
            return (f"{name} is {output['dtype']}{list(shape)}, expected "
                    f"{expected.dtype.name}{list(expected.value.shape)}")
        try:
            got = BY_NAME[output["dtype"]].decode(output["data"]).reshape(shape)
        except ValueError as error:
            return f"{name}: {error}"
        written = expected.value.size if expected.written is None else expected.written.sum()
        if output["unwritten"] != expected.value.size - written:
            return (f"{name}: {output['unwritten']} elements unwritten, expected "
                    f"{expected.value.size - written}")
        wrong = expected.wrong(got)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            bound = np.broadcast_to(expected.bound, expected.value.shape)[at]
            return (f"{name}: {int(wrong.sum())} of {wrong.size} elements wrong, first at "
                    f"{list(at)}: expected {expected.value[at]!r} +- {bound:.3g} as "
                    f"{expected.dtype.name} ({expected.dtype.cast(expected.value)[at]!r}), "
                    f"got {got[at]!r}")
    return ""


def run_chunk(task):
    """Builds, runs and judges cases: [(name, number, fault)]."""
    seed, cases = task
    kernels = [build(seed, name, number) for name, number in cases]
    return [(name, number, verdict(kernel, reply))
            for (name, number), kernel, reply in zip(cases, kernels, run(kernels))]


def plan(arguments, apis):
    """The cases: every API in turn, forbidden ones among them."""
    if arguments.api:
        numbers = [arguments.case] if arguments.case is not None else range(arguments.cases)
        return [(arguments.api, number) for number in numbers]
    names = sorted(set(ORACLES) & set(apis))
    refused = sorted({f"forbidden {name}" for name, _ in REFUSALS if name in apis})
    forbidden = int(arguments.cases * SHARE_FORBIDDEN)
    allowed = arguments.cases - forbidden
    return ([(names[k % len(names)], k // len(names)) for k in range(allowed)]
            + [(refused[k % len(refused)], k // len(refused)) for k in range(forbidden)])


def describe(seed, name, number, fault, keep):
    kernel = build(seed, name, number)
    print(f"\n=== --seed {seed} --api '{name}' --case {number}: {fault}")
    print(kernel.source())
    if keep:
        folder = pathlib.Path(keep)
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{name.replace(' ', '_')}-{number}"
        (folder / f"{stem}.py").write_text(kernel.source())
        np.savez(folder / f"{stem}.npz", **{n: v for n, v, _ in kernel.inputs},
                 **{n: e.value for n, e in kernel.outputs})
    else:
        for label, values, dtype in kernel.inputs:
            if values.size <= 64:
                print(f"{label} ({dtype.name}) = {np.array2string(values, threshold=64)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cases", type=int, default=10800)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--api", help="only this API (or 'forbidden NAME')")
    parser.add_argument("--case", type=int, help="with --api: only this one")
    parser.add_argument("--keep", help="a folder for failing kernels and their arrays")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", type=int, default=1, help="failures printed in full per API")
    arguments = parser.parse_args()

    listed = subprocess.run([RUNNER, "--apis"], capture_output=True, text=True, check=True)
    apis = listed.stdout.split()
    missing = [name for name in apis if name not in ORACLES and name not in WITHOUT_ORACLE]
    check(not missing, f"no oracle for {', '.join(missing)}")
    absent = sorted(set(ORACLES) - set(apis))

    start = time.monotonic()
    cases = plan(arguments, apis)
    chunks = [(arguments.seed, cases[k::max(1, len(cases) // CHUNK)])
              for k in range(max(1, len(cases) // CHUNK))]
    counts, failures = collections.Counter(), []
    with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
        for results in pool.imap_unordered(run_chunk, chunks):
            for name, number, fault in results:
                counts[name] += 1
                if fault:
                    failures.append((name, number, fault))
    failures.sort()
    explained = collections.Counter()
    for name, number, fault in failures:
        explained.update([d.name for d in KNOWN if d.explains(name, fault)][:1])
    failures = [f for f in failures if not any(d.explains(f[0], f[2]) for d in KNOWN)]
    print("cases per API: " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    if absent:
        print(f"oracles of APIs that the product does not have: {', '.join(absent)}")
    for name, reason in sorted(WITHOUT_ORACLE.items()):
        print(f"without oracle: {name} ({reason})")
    for divergence in KNOWN:
        if explained[divergence.name]:
            print(f"known divergence {divergence.name}: {explained[divergence.name]} cases "
                  f"({divergence.reason})")
    shown = collections.Counter()
    for name, number, fault in failures:
        shown[name] += 1
        if shown[name] <= arguments.show:
            describe(arguments.seed, name, number, fault, arguments.keep)
    for name, n in shown.items():
        print(f"FAILED {name}: {n} of {counts[name]}")
    if not arguments.api:
        uncovered = [name for name in apis if name in ORACLES and not counts[name]]
        check(not uncovered, f"no case drawn for {', '.join(uncovered)}")
        settled = [d.name for d in KNOWN if not explained[d.name]]
        check(not settled or arguments.cases < 10000,
              f"known divergences that no case shows any more: {', '.join(settled)}")
    check(not failures, f"{len(failures)} of {len(cases)} cases disagree with the documentation")
    print(f"{len(cases) - explained.total()} of {len(cases)} cases of {len(counts)} kinds agree "
          f"with the documentation, {explained.total()} show a known divergence; "
          f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
