"""Draws units and their includes as an SVG: rows from top to bottom, each unit below all that it includes.

Rooms (folders of src/) that do not include one another share a band. Rows are ordered so that few lines cross;
a line that passes a row has a place in it, as a box has.
"""

from html import escape

BOX_HEIGHT = 30
ROW_HEIGHT = 62
BAND_PADDING = 16
BAND_GAP = 8
LEFT = 128  # names of libraries and rooms stand left of the boxes
RIGHT = 28
BOX_GAP = 20
LINE_GAP = 18
ARROW = 7
MOST_ASLANT = LINE_GAP / BOX_HEIGHT

STYLE = """
  svg { color-scheme: light dark; --page: #ffffff; --band: #f3f4f6; --box: #ffffff; --ink: #1f2328; --quiet: #656d76; }
  .library0 { --accent: #0969da; }
  .library1 { --accent: #1a7f37; }
  .library2 { --accent: #8250df; }
  @media (prefers-color-scheme: dark) {
    svg { --page: #0d1117; --band: #161b22; --box: #21262d; --ink: #e6edf3; --quiet: #8d96a0; }
    .library0 { --accent: #58a6ff; }
    .library1 { --accent: #56d364; }
    .library2 { --accent: #bc8cff; }
  }
  text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: var(--ink); }
  .box rect { fill: var(--box); stroke: var(--accent); stroke-width: 1.5; }
  .box text { text-anchor: middle; }
  .band { fill: var(--band); }
  .room { font-weight: 600; }
  .library { font-size: 12px; fill: var(--accent); text-anchor: middle; }
  .include path { fill: none; stroke: var(--accent); stroke-width: 1.3; stroke-opacity: 0.75; }
  .include polygon { fill: var(--accent); }
"""


class Node:
    """A box, or the place where a line passes a row."""

    def __init__(self, unit, row):
        self.unit = unit
        self.row = row
        self.above = []  # in the row above: what it includes, or how its line goes on
        self.below = []
        self.x = 0.0

    @property
    def label(self):
        return self.unit.name.split("/")[-1]

    @property
    def width(self):
        return 28 + 7.6 * len(self.label) if self.unit else 0


def room_of(unit):
    return unit.name.split("/")[0]


def depths(keys, edges, floor):
    """How deep each key stands: below all that it has an edge to, and not above its floor."""
    depth = {}
    for key in keys:  # an edge leads to an earlier key
        depth[key] = max([depth[other] + 1 for other in edges[key]] + [floor(key, depth)])
    return depth


def bands_of(units, edges):
    """Units by band and row within it."""
    rooms = {}
    for unit in units:
        rooms.setdefault(room_of(unit), []).append(unit)
    library = {room: members[0].library for room, members in rooms.items()}
    by_path = {unit.path: unit for unit in units}
    room_edges = {room: {room_of(by_path[other]) for unit in members for other in edges[unit.path]} - {room}
                  for room, members in rooms.items()}

    def below_earlier_libraries(room, depth):
        return max([depth[other] + 1 for other in depth if library[other] < library[room]], default=0)

    bands = {}
    for room, depth in depths(rooms, room_edges, below_earlier_libraries).items():
        bands.setdefault(depth, []).append(room)
    result = []
    for _, names in sorted(bands.items()):
        members = [unit for name in names for unit in rooms[name]]
        inside = {unit.path: {other for other in edges[unit.path] if by_path[other] in members} for unit in members}
        rows = {}
        for path, depth in depths(inside, inside, lambda key, depth: 0).items():
            rows.setdefault(depth, []).append(by_path[path])
        result.append((names, [rows[depth] for depth in sorted(rows)]))
    return result


def graph_of(bands, edges):
    """Rows of nodes; every line leads from a node to one in the row above."""
    boxes, rows = {}, []
    for _, band_rows in bands:
        for units in band_rows:
            rows.append([Node(unit, len(rows)) for unit in units])
            boxes.update((node.unit.path, node) for node in rows[-1])
    for path, box in boxes.items():
        for other in sorted(edges[path]):
            node = box
            while node.row > boxes[other].row + 1:
                passing = Node(None, node.row - 1)
                rows[passing.row].append(passing)
                node.above.append(passing)
                passing.below.append(node)
                node = passing
            node.above.append(boxes[other])
            boxes[other].below.append(node)
    return rows, boxes


def distance(left, right):
    return (left.width + right.width) / 2 + (BOX_GAP if left.unit and right.unit else LINE_GAP)


def crossings(rows):
    total = 0
    for row in rows:
        place = {id(node): index for index, node in enumerate(row)}
        ends = [(place[id(node)], above) for node in row for above in node.above]
        for row_above in {node.row for _, node in ends}:
            order = {id(node): index for index, node in enumerate(rows[row_above])}
            lines = [(here, order[id(node)]) for here, node in ends]
            total += sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for i, a in enumerate(lines) for b in lines[:i])
    return total


def order_rows(rows):
    """Sorts rows by the mean place of what their nodes are joined to, down and up, and keeps the best."""
    best, best_rows = crossings(rows), [list(row) for row in rows]
    for sweep in range(40):
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            place = {}
            for other in rows:
                place.update((id(node), index / max(1, len(other) - 1)) for index, node in enumerate(other))

            def mean_place(node):
                joined = node.above if downwards else node.below
                return sum(place[id(other)] for other in joined) / len(joined) if joined else place[id(node)]

            row.sort(key=mean_place)
        if crossings(rows) < best:
            best, best_rows = crossings(rows), [list(row) for row in rows]
    return best_rows


def place_row(row, wished):
    """Sets each x as near as possible to the wished one, in order and without overlap."""
    offset, offsets = 0.0, [0.0]
    for left, right in zip(row, row[1:]):
        offset += distance(left, right)
        offsets.append(offset)
    groups = []  # neighbours that touch: [sum of wishes, count]
    for node, offset in zip(row, offsets):
        groups.append([wished[id(node)] - offset, 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] > groups[-1][0] / groups[-1][1]:
            total, count = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += count
    starts = [total / count for total, count in groups for _ in range(count)]
    for node, start, offset in zip(row, starts, offsets):
        node.x = start + offset


def place_rows(rows):
    for row in rows:
        place_row(row, {id(node): 0.0 for node in row})
    for sweep in range(400):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wished = {}
            for node in row:
                joined = node.above + node.below
                wished[id(node)] = sum(other.x for other in joined) / len(joined) if joined else 0.0
            place_row(row, wished)
    left = min(node.x - node.width / 2 for row in rows for node in row)
    for row in rows:
        for node in row:
            node.x += LEFT - left
    return max(node.x + node.width / 2 for row in rows for node in row) + RIGHT


def port(node, joined, other):
    """Where on its box the line to `other` ends: side by side, in the order of the other ends."""
    if not node.unit:
        return node.x
    order = sorted(joined, key=lambda end: end.x)
    width = min(node.width - 20, 16 * (len(order) - 1))
    return node.x + (order.index(other) / max(1, len(order) - 1) - 0.5) * width if len(order) > 1 else node.x


def line_of(box, first, y_of):
    """The path of a line from the top of a box to the bottom of the one that it includes, and its end."""
    chain = [box, first]
    while not chain[-1].unit:
        chain.append(chain[-1].above[0])
    # Points with the direction of the line in them, dx/dy: upright at both ends; straight past a row, as far
    # aslant as the gap between its boxes allows.
    points = [(port(box, box.above, first), y_of[box.row] - BOX_HEIGHT / 2, 0.0)]
    for before, node, after in zip(chain, chain[1:], chain[2:]):
        slope = (after.x - before.x) / (y_of[after.row] - y_of[before.row])
        slope = max(-MOST_ASLANT, min(MOST_ASLANT, slope))
        for y in (BOX_HEIGHT / 2, -BOX_HEIGHT / 2):
            points.append((node.x + slope * y, y_of[node.row] + y, slope))
    end = (port(chain[-1], chain[-1].below, chain[-2]), y_of[chain[-1].row] + BOX_HEIGHT / 2 + ARROW)
    points.append((*end, 0.0))

    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0, slope0), (x1, y1, slope1) in zip(points, points[1:]):
        half = (y1 - y0) / 2
        path += f" C{x0 + slope0 * half:.1f} {y0 + half:.1f} {x1 - slope1 * half:.1f} {y1 - half:.1f} {x1:.1f} {y1:.1f}"
    return path, end


def draw(units, edges):
    """SVG of `units`, in order, with `edges` from a unit's path to those of units that it includes."""
    bands = bands_of(units, edges)
    rows, boxes = graph_of(bands, edges)
    rows = order_rows(rows)
    width = place_rows(rows)

    y, y_of, band_tops = BAND_GAP, [], []
    for _, band_rows in bands:
        height = 2 * BAND_PADDING + BOX_HEIGHT + ROW_HEIGHT * (len(band_rows) - 1)
        band_tops.append((y, height))
        y_of += [y + BAND_PADDING + BOX_HEIGHT / 2 + ROW_HEIGHT * row for row in range(len(band_rows))]
        y += height + BAND_GAP
    height = y

    libraries = list(dict.fromkeys(unit.library for unit in units))
    names = {unit.library: unit.library_name for unit in units}
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
           f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
           "<title>Which folder includes which</title>", f"<style>{STYLE}</style>",
           f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" style="fill: var(--page)"/>']
    spans = {}
    for (rooms, band_rows), (top, band_height) in zip(bands, band_tops):
        out.append(f'<rect class="band" x="36" y="{top:.1f}" width="{width - 44:.1f}" height="{band_height:.1f}" rx="6"/>')
        if len(band_rows) > 1:
            out.append(f'<text class="room" x="50" y="{top + band_height / 2 + 5:.1f}">{escape(rooms[0])}</text>')
        library = band_rows[0][0].library
        first, _ = spans.get(library, (top, 0))
        spans[library] = (first, top + band_height)
    for library, (top, bottom) in spans.items():
        if not names[library]:
            continue
        middle = (top + bottom) / 2
        out.append(f'<g class="library{libraries.index(library)}"><path d="M30 {top:.1f}V{bottom:.1f}" stroke="var(--accent)" '
                   f'stroke-width="2"/><text class="library" transform="translate(21 {middle:.1f}) rotate(-90)">'
                   f"{escape(names[library])}</text></g>")
    for box in boxes.values():
        for above in box.above:
            path, (x, y) = line_of(box, above, y_of)
            out.append(f'<g class="include library{libraries.index(box.unit.library)}"><path d="{path}"/>'
                       f'<polygon points="{x:.1f},{y - ARROW:.1f} {x - 3.5:.1f},{y:.1f} {x + 3.5:.1f},{y:.1f}"/></g>')
    for box in boxes.values():
        left, top = box.x - box.width / 2, y_of[box.row] - BOX_HEIGHT / 2
        out.append(f'<g class="box library{libraries.index(box.unit.library)}"><rect x="{left:.1f}" y="{top:.1f}" '
                   f'width="{box.width:.1f}" height="{BOX_HEIGHT}" rx="5"/>'
                   f'<text x="{box.x:.1f}" y="{top + 20:.1f}">{escape(box.label)}</text></g>')
    return "\n".join(out + ["</svg>", ""])
