#!/usr/bin/python3
"""Prints the summary of a run; --figure FILE.png also draws the best speed-up per round."""
import argparse
import sys

import numpy as np

from accelopt_runs import best_per_round, load_run, summary


def draw(rounds, path):
    """Best verified speed-up so far over the rounds, one line per problem."""
    import matplotlib
    matplotlib.use("Agg")  # no display
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(6.4, 4.0))
    for problem, group in rounds.groupby("problem"):
        axes.plot([0, *(group["round"] + 1)], [1.0, *group["speedup"]], marker="o", label=problem)
    axes.set_xlabel("rounds")
    axes.set_ylabel("best verified speed-up over the baseline")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    if len(rounds):
        axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="run directory, run.h5 or a round file")
    parser.add_argument("--figure", metavar="FILE", help="also draw the speed-ups into this PNG")
    arguments = parser.parse_args()
    try:
        tables = load_run(arguments.run)
    except (OSError, KeyError) as error:
        sys.exit(f"summarize: {error}")
    table = summary(tables)
    print(table.to_string(index=False, float_format=lambda x: f"{x:.3f}", na_rep="n/a"))
    speedups = table["speedup"].dropna()
    if len(speedups):
        print(f"geometric mean of the speed-ups: {np.exp(np.log(speedups).mean()):.3f}")
    if arguments.figure:
        draw(best_per_round(tables), arguments.figure)
        print(f"figure: {arguments.figure}")


if __name__ == "__main__":
    main()
