#!/usr/bin/env python3
"""Holds every include of src/, include/ and app/ against the order of docs/design.md.

    scripts/check_includes.py                                   check the order
    scripts/check_includes.py --draw docs/images/includes.svg   draw the graph
    scripts/check_includes.py --drawn docs/images/includes.svg  check, and that the picture is today's

A unit is a folder. The list in docs/design.md names each and is the order: a unit includes only what stands
above it, and units on one line do not include one another. The files of a folder that has folders within it
come after those.

A public header belongs to the folder of src/ that holds its source. One without a source of its name is
named in the line of its unit, as adaact/<room>/<name>.h.
"""

import argparse
import os
import re
import sys

import include_picture

LIST_IN = "docs/design.md"
SOURCES = (".h", ".cuh", ".cpp", ".cu")
END_OF_LIBRARY = re.compile(r"^ *── (\w+) ends here")
LIST_LINE = re.compile(r"^( *)([\w-]+/(?: [\w-]+/)*)(?: +(.*))?$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


class Unit:
    def __init__(self, path, place, line, library):
        self.path = path
        self.place = place  # units on one line have the same
        self.line = line
        self.library = library  # the number of the library that it is part of
        self.library_name = ""

    @property
    def name(self):
        return self.path[len("src/"):] if self.path.startswith("src/") else self.path


class Order:
    """The units as docs/design.md lists them, the public headers that it names, and what is wrong with it."""

    def __init__(self, root):
        self.units = {}  # path -> Unit, from the first to the last
        self.named_headers = {}  # header below include/ -> path of its unit
        self.problems = []
        with open(os.path.join(root, LIST_IN), encoding="utf-8") as page:
            lines = page.read().split("\n")
        if "src/" not in lines:
            self.problems.append(f"{LIST_IN}: there is no list of units that begins with the line src/")
            return
        first = lines.index("src/")
        last = lines.index("```", first)
        self._read(lines[first:last], first + 1)

    def _read(self, lines, number):
        listed = []
        libraries = []  # a name, and how many lines of `listed` were before its end
        open_folders = []  # the folders around the line at hand: (indentation, path, number of the line)

        def close(indentation):
            # The files of a folder come after the folders within it.
            while open_folders and open_folders[-1][0] >= indentation:
                _, path, line = open_folders.pop()
                listed.append(([path], line))

        for number, line in enumerate(lines, number):
            end = END_OF_LIBRARY.match(line)
            if end:
                close(line.index("─"))
                libraries.append((end[1], len(listed)))
            match = LIST_LINE.match(line)
            if not match:
                continue
            indentation = len(match[1])
            close(indentation)
            above = open_folders[-1][1] + "/" if open_folders else ""
            paths = [above + name.rstrip("/") for name in match[2].split()]
            for header in re.findall(r"\badaact/[\w/]+\.h\b", match[3] or ""):
                self.named_headers[header] = paths[0]
            if len(paths) == 1:
                open_folders.append((indentation, paths[0], number))
            else:
                listed.append((paths, number))
        close(0)
        for place, (paths, line) in enumerate(listed):
            library = sum(end <= place for _, end in libraries)
            for path in paths:
                self.units[path] = Unit(path, place, line, library)
                if library < len(libraries):
                    self.units[path].library_name = libraries[library][0]

    def keep_those_of_code(self, folders):
        """What is left are units with files; a folder that is in one place only is a problem."""
        tops = {path.split("/")[0] for path in folders}
        for path, unit in list(self.units.items()):
            if path in folders:
                continue
            del self.units[path]
            has_folders = any(folder.startswith(path + "/") for folder in folders)
            if path.split("/")[0] in tops and not has_folders:
                self.problems.append(f"{LIST_IN}:{unit.line}: lists {path}/, which has no sources")
        for path in sorted(set(folders) - set(self.units)):
            self.problems.append(f"{path}/: is not in the list of {LIST_IN}")


class Tree:
    """The sources, the unit of each and their includes of one another."""

    def __init__(self, root):
        self.root = root
        self.files = []
        for top in ("src", "include", "app"):
            for folder, folders, names in os.walk(os.path.join(root, top)):
                folders.sort()
                path = os.path.relpath(folder, root)
                self.files += [f"{path}/{name}" for name in sorted(names) if name.endswith(SOURCES)]
        self.known = set(self.files)
        self.order = Order(root)
        self.order.keep_those_of_code({os.path.dirname(file) for file in self.files
                                       if not file.startswith("include/")})
        self.problems = list(self.order.problems)
        self.unit_of = {file: self._find_unit(file) for file in self.files}

    def _find_unit(self, file):
        if not file.startswith("include/"):
            return os.path.dirname(file)
        header = file[len("include/"):]
        room, name = os.path.split(header[len("adaact/"):])
        stem = os.path.splitext(name)[0]
        if room:
            if not any(path.startswith(f"src/{room}/") for path in self.order.units):
                return f"src/{room}"
            for source in self.files:
                folder, source_name = os.path.split(source)
                if (folder + "/").startswith(f"src/{room}/") and source_name in (stem + ".cpp", stem + ".cu"):
                    return folder
        if header in self.order.named_headers:
            return self.order.named_headers[header]
        self.problems.append(f"{file}: has no source of its name in src/{room}; "
                             f"name {header} in the line of its unit in {LIST_IN}")
        return None

    def _find_file(self, includer, included):
        for path in (os.path.join(os.path.dirname(includer), included), f"src/{included}", f"include/{included}"):
            if path in self.known:
                return path
        return None

    def includes(self):
        """(file, line, unit, included file, its unit) of every include that leads to another unit."""
        for file in self.files:
            with open(os.path.join(self.root, file), encoding="utf-8") as text:
                for number, line in enumerate(text, 1):
                    match = INCLUDE.match(line)
                    included = self._find_file(file, match[2]) if match else None
                    if included is None:
                        continue
                    here, there = self.unit_of[file], self.unit_of[included]
                    if here in self.order.units and there in self.order.units and here != there:
                        yield file, number, here, included, there


def against_the_order(tree, includes):
    units = tree.order.units
    for file, line, here, included, there in includes:
        if units[there].place < units[here].place:
            continue
        relation = "stands beside" if units[there].place == units[here].place else "stands below"
        yield (f"{file}:{line}: {units[here].name} includes {units[there].name} ({included}), "
               f"which {relation} it in {LIST_IN}")


def cycles(edges):
    """Sets of units that include one another, directly or through others."""
    reached = {unit: reachable(unit, edges) for unit in edges}
    found = []
    for unit in edges:
        together = sorted(other for other in reached[unit] if unit in reached.get(other, ()))
        if together and together not in found:
            found.append(together)
    return found


def reachable(start, edges):
    seen, waiting = set(), [start]
    while waiting:
        for unit in edges.get(waiting.pop(), ()):
            if unit not in seen:
                seen.add(unit)
                waiting.append(unit)
    return seen


def without_what_follows(edges):
    """The edges less those that others imply: A → C where there are A → B and B → C."""
    return {unit: {other for other in others
                   if not any(other in reachable(between, edges) for between in others - {other})}
            for unit, others in edges.items()}


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), ".."))
    parser.add_argument("--draw")
    parser.add_argument("--drawn")
    arguments = parser.parse_args()

    tree = Tree(arguments.root)
    includes = list(tree.includes())
    edges = {unit: set() for unit in tree.order.units}
    for _, _, here, _, there in includes:
        edges[here].add(there)

    problems = tree.problems + list(against_the_order(tree, includes))
    for together in cycles(edges):
        problems.append("a cycle: " + ", ".join(together) + " include one another")
    for problem in problems:
        print(problem)
    if problems:
        return 1

    if arguments.draw or arguments.drawn:
        picture = include_picture.draw(list(tree.order.units.values()), without_what_follows(edges))
        if arguments.draw:
            with open(arguments.draw, "w", encoding="utf-8") as file:
                file.write(picture)
        else:
            with open(arguments.drawn, encoding="utf-8") as file:
                if file.read() != picture:
                    print(f"{arguments.drawn}: is not the graph of today's includes; "
                          f"scripts/check_includes.py --draw {arguments.drawn} draws it")
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
