#!/usr/bin/python3
"""Checks the dependency arrows between the folders of src and where third-party headers may be
included. Usage: check_arrows.py SOURCE_TREE; prints every violation, exits 1 when there is one."""
import pathlib
import re
import sys

ARROWS = {
    "core": [],
    "protocol": ["core"],
    "config": ["core"],
    "nki": ["core"],
    "trainium": ["nki", "protocol"],
    "eval": ["trainium", "config", "protocol"],
    "llm": ["config", "protocol"],
    "rewrite": ["nki", "llm"],
    "agents": ["llm", "nki"],
    "search": ["agents"],
    "store": ["protocol"],
    "cluster": ["search", "store", "eval"],
    "report": ["store", "config"],
}
ARROWS["cli"] = list(ARROWS)

# Third-party header pattern -> folders (or folder prefixes) that may include it.
HOMES = {
    r"mpi\.h": ["cluster/transport/"],
    r"hdf5\.h|H5\w+\.h": ["store/"],
    r"curl/": ["llm/transport/"],
    r"yaml-cpp/": ["config/"],
    r"Python\.h|pybind11/": ["nki/syntax/", "eval/reference/"],
    r"hwy/|oneapi/": ["trainium/"],
}


def reachable(folder):
    seen, todo = set(), [folder]
    while todo:
        for other in ARROWS[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen | {folder}


def check_includes(src):
    problems = []
    for path in sorted(src.rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        relative = path.relative_to(src).as_posix()
        folder = relative.split("/")[0]
        allowed = reachable(folder)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if not match:
                continue
            kind, name = match.groups()
            where = f"src/{relative}:{number}"
            if kind == '"':
                target = name.split("/")[0]
                if target in ARROWS and target not in allowed:
                    problems.append(f"{where}: {folder} may not include {name}")
                if target not in ARROWS:
                    problems.append(f"{where}: include own headers from src/, not {name}")
            for pattern, homes in HOMES.items():
                if re.match(pattern, name) and not any(relative.startswith(h) for h in homes):
                    problems.append(f"{where}: {name} belongs in {', '.join(homes)} only")
            if path.suffix == ".h" and kind == "<" and name.startswith("nlohmann"):
                # A header of JSON helpers, private to its folder, is for that folder's .cpp files.
                if folder not in ("protocol", "store") and relative != "llm/json_reading.h":
                    problems.append(f"{where}: nlohmann-json stays in .cpp files")
    return problems


def check_links(src):
    problems = []
    for path in sorted(src.glob("*/CMakeLists.txt")):
        folder = path.parent.name
        for target in re.findall(r"accelopt_([a-z]+)", path.read_text()):
            if target in ARROWS and target not in reachable(folder):
                problems.append(f"src/{folder}/CMakeLists.txt: {folder} may not link {target}")
    return problems


def main():
    src = pathlib.Path(sys.argv[1]) / "src"
    folders = {p.name for p in src.iterdir() if p.is_dir()}
    problems = check_includes(src) + check_links(src)
    for folder in sorted(set(ARROWS) - folders):
        problems.append(f"src/{folder} is missing")
    for folder in sorted(folders - set(ARROWS)):
        problems.append(f"src/{folder} has no entry in the arrows")
    for folder in sorted(folders & set(ARROWS)):
        if not (src / folder / "README.md").exists():
            problems.append(f"src/{folder} has no README.md")
    for problem in problems:
        print(problem)
    print("FAILED" if problems else "the arrows hold")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
