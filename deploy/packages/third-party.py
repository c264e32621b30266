#!/usr/bin/env python3
"""Tells what other people's crates are linked into packages of this tree, and by which licences.

    deploy/packages/third-party.py BUILT... -- PACKAGE...       as cargo calls them; prints the list and all texts

What is built together shares its features, so that the list of a package depends on what it was built with. By what cargo itself says is linked, and the texts that each crate brings. A crate that names no licence ends this with
an error: it would be given away without leave.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

# Files with licences, authors, and notices of code that a crate contains.
IS_TEXT = re.compile(r"^(un)?(licen[cs]e|copying|copyright|notice)([._-].*)?$", re.IGNORECASE)
NOT_TEXT = {".rs", ".py", ".sh", ".toml", ".json"}
STANDARD = "https://github.com/rust-lang/rust"


def said(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


HOST = re.search(r"^host: (.*)$", said("rustc", "-vV"), re.MULTILINE)[1]


def linked(built, packages):
    """Names and versions of all crates whose code is in these packages; what only runs while they are built is not."""
    words = ["cargo", "tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "depth", "--no-dedupe",
             "--target", HOST, "--format", " {p}"]
    words += [word for package in built for word in ("--package", package)]
    found, root = set(), None
    for line in filter(None, said(*words).splitlines()):
        depth, name, version, *_ = line.split()
        root = name if depth == "0" else root
        found |= {(name, version.removeprefix("v"))} if root in packages else set()
    return found


def crates(built, packages):
    """What the registry's crates among them say of themselves, by name."""
    known = json.loads(said("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", HOST))["packages"]
    wanted = linked(built, packages)
    found = [it for it in known if (it["name"], it["version"]) in wanted and it["source"]]
    return sorted(found, key=lambda it: (it["name"], it["version"]))


def texts(crate):
    """Those anywhere in its source, in the order of their paths."""
    root = pathlib.Path(crate["manifest_path"]).parent
    for folder, folders, files in os.walk(root):
        folders.sort()
        paths = (pathlib.Path(folder, file) for file in sorted(files))
        for path in paths:
            if IS_TEXT.match(path.name) and path.suffix not in NOT_TEXT:
                yield path.relative_to(root), path.read_text(errors="replace").strip()


def entry(crate, numbers):
    licence = crate["license"] or (crate["license_file"] and f"see {crate['license_file']}")
    if not licence:
        sys.exit(f"{crate['name']} {crate['version']} names no licence")
    lines = [f"{crate['name']} {crate['version']}: {licence}"]
    # Without a licence text, the authors are named nowhere else.
    lines += [f"    by {', '.join(crate['authors'])}"] if crate["authors"] else []
    lines += [f"    {crate['repository'] or 'https://crates.io/crates/' + crate['name']}"]
    lines += [f"    {path}: text {numbers.setdefault(text, len(numbers) + 1)}" for path, text in texts(crate)]
    return "\n".join(lines)


def main():
    numbers = {}
    between = sys.argv.index("--")
    built, packages = sys.argv[1:between], sys.argv[between + 1:]
    entries = [entry(crate, numbers) for crate in crates(built, packages)]
    rust = said("rustc", "--version").strip()
    print("Crates that are linked into these programs beside their own code, each with its licence, where its source is,")
    print("and which of the texts below it brings. Where a licence leaves a choice, each may be chosen.\n")
    print(f"The standard library of {rust}: MIT OR Apache-2.0\n    by the Rust Project's contributors\n    {STANDARD}\n")
    print("\n\n".join(entries))
    for text, number in numbers.items():
        print(f"\n{'=' * 20} text {number} {'=' * 20}\n\n{text}")


if __name__ == "__main__":
    main()
