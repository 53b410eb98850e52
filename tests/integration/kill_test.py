#!/usr/bin/python3
"""SIGKILL at random moments, of any rank or of the launcher, resumed on another number of ranks:
same tables and winners as an undisturbed run, no journalled reply asked for again, and h5py opens
every published file. Usage: kill_test.py [KILLS]"""
import os
import random
import signal
import subprocess
import sys
import time

from harness import (SMALL, Workspace, best_files, check, journal_records, kill_group, ranks_of,
                     run, start, table, wait_or_kill)

LLM_RESERVED, LLM_REPLY = 2, 4


def replies_and_reservations(directory):
    """Per call (unit, role, sample): in how many launches it was replied to."""
    import json
    zstd = ["zstd", "-d", "-c", "-q"]
    answered, reserved_after = set(), []
    for name, kind, payload in sorted(journal_records(directory),
                                      key=lambda r: r[0].split("launch-")[-1]):
        if kind not in (LLM_RESERVED, LLM_REPLY):
            continue
        record = json.loads(subprocess.run(zstd, input=payload, capture_output=True,
                                           check=True).stdout)
        call = (record["unit"], record["role"], record["sample"])
        if kind == LLM_RESERVED and call in answered:
            reserved_after.append((name, call))
        if kind == LLM_REPLY:
            answered.add(call)
    return answered, reserved_after


def h5_files_open(directory):
    import h5py
    count = 0
    for path in [*directory.glob("rounds/*.h5"), *directory.glob("*.h5")]:
        with h5py.File(path, "r") as file:
            check(len(file.keys()) > 0, f"{path} is empty")
        count += 1
    return count


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    chance = random.Random(int(os.environ.get("ACCELOPT_KILL_SEED", "20")))
    with Workspace() as work:
        begun = time.time()
        run(3, ["run", SMALL], work)
        duration = time.time() - begun
        reference = work / "runs/small-1"
        expected = [table(reference, work, t) for t in ("summary", "rounds", "outcomes")]
        done_kills, number, opened = 0, 1, 0
        while done_kills < kills:
            number += 1
            directory = work / f"runs/small-{number}"
            first = True
            while done_kills < kills:
                ranks = chance.choice([1, 2, 3, 4])
                arguments = ["run", SMALL] + ([] if first else ["--resume"])
                process = start(ranks, arguments, work, work / "log.txt")
                # Late enough to have started, early enough to be in the middle.
                ended = wait_for(process, chance.uniform(0.25, max(0.6, 0.8 * duration)))
                if ended:
                    first = False
                    break
                victims = ranks_of(process) + [process.pid]
                victim = chance.choice(victims)
                try:
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                done_kills += 1
                if not wait_or_kill(process, 10):
                    print(f"kill {done_kills}: launcher had to be killed too")
                kill_group(process)
                # What the killed launch left is known once none of it runs any more.
                first = first and not (directory / "resolved.yaml").exists()
                opened += h5_files_open(directory)
            if first:
                run(2, ["run", SMALL], work)
            else:
                run(chance.choice([1, 2, 3]), ["run", SMALL, "--resume"], work)
            got = [table(directory, work, t) for t in ("summary", "rounds", "outcomes")]
            check(got == expected, f"tables differ after kills:\n{expected[0]}\n{got[0]}")
            check(best_files(directory) == best_files(reference), "best/ differs after kills")
            answered, again = replies_and_reservations(directory)
            check(answered, "no replies journalled")
            check(not again, f"journalled replies asked for again: {again[:3]}")
            opened += h5_files_open(directory)
        print(f"{done_kills} kills over {number - 1} runs, {opened} HDF5 files opened: ok")


def wait_for(process, seconds):
    deadline = time.time() + seconds
    while time.time() < deadline:
        if process.poll() is not None:
            return True
        time.sleep(0.01)
    return False


main()
