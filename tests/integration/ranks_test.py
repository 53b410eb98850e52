#!/usr/bin/python3
"""The same configuration gives the same tables and winners, byte for byte, in one process and on
1, 2 and 3 ranks; and a second run in the same folder gets a directory of its own."""
from harness import SMALL, Workspace, best_files, check, run, table

with Workspace() as work:
    tables, winners = [], []
    for number, ranks in enumerate([0, 1, 2, 3], 1):
        run(ranks, ["run", SMALL], work)
        directory = work / f"runs/small-{number}"
        tables.append([table(directory, work, t) for t in ("summary", "rounds", "outcomes")])
        winners.append(best_files(directory))
    for number, ranks in enumerate([1, 2, 3], 1):
        check(tables[number] == tables[0], f"tables differ between 0 and {ranks} ranks:\n"
              f"{tables[0]}\n{tables[number]}")
        check(winners[number] == winners[0], f"best/ differs between 0 and {ranks} ranks")
    check("silu" in tables[0][0], "the summary names its problems")
    check(winners[0], "there is at least one winner")
print("ok")
