# SPDX-License-Identifier: Apache-2.0
"""A picture of each operation and backend: time by size, one panel a number of ranks and regime.

It is SVG written here, so that it needs no other program and stays small: some 10 KB.
"""
import math
import os

from . import machine
from .figures import UNPROBED, regimes_of

COLOURS = {'tutti': '#000000', 'openmpi': '#d55e00', 'mpich': '#0072b2', 'intel': '#009e73',
           'gloo': '#cc79a7', 'ucc': '#e69f00'}
# Of a panel, in pixels; the plot lies within the margins.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 440, 300, 65, 15, 30, 45
LEGEND = 30
STYLE = 'text{font:11px sans-serif}.t{font-size:12px;text-anchor:middle}.x{text-anchor:middle}' \
        '.y{text-anchor:end}.g{stroke:#ddd}.f,.l,.p{fill:none}.f{stroke:#000}' \
        '.p{stroke-linecap:round}'


def panels(session, operation, wanted):
    """[(title, [(program, [(bytes, microseconds)])])] of those that have a line, of a backend."""
    found = []
    for backend, ranks in session.tables():
        if backend != wanted:
            continue
        cells = sorted((cell for cell in session.cells if cell.bytes and (
            cell.backend, cell.ranks, cell.operation) == (backend, ranks, operation)),
            key=lambda cell: cell.bytes)
        for regime in regimes_of(ranks):
            lines = []
            for program in session.present(backend, ranks):
                points = [(cell.bytes, figure.median) for cell in cells
                          if (figure := session.figures.figure(cell, program.name, regime))]
                if points:
                    lines.append((program, points))
            if any(len(points) > 1 for _, points in lines):
                words = '' if regime == UNPROBED else f', {regime}'
                found.append((f'{operation}, {backend}, {ranks} ranks{words}', lines))
    return found


def size_words(size):
    for shift, unit in ((20, 'MiB'), (10, 'KiB')):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f'{size >> shift} {unit}'
    return f'{size} B'


def scale(values, start, length):
    """A function from a value to its place, on a logarithmic axis that begins at `start`."""
    low, high = math.log(min(values)), math.log(max(values))
    # A length below 0 goes upwards, as y does.
    return lambda value: round(start + length * (math.log(value) - low) / (high - low), 1)


def decades(times):
    """The powers of ten from below the shortest time to above the longest one."""
    first = math.floor(math.log10(min(times)))
    last = max(math.ceil(math.log10(max(times))), first + 1)
    return [10.0 ** power for power in range(first, last + 1)]


def panel(title, lines, left, top):
    """The elements of a panel, whose corner is at (left, top)."""
    sizes = sorted({size for _, points in lines for size, _ in points})
    marks = decades([time for _, points in lines for _, time in points])
    right, bottom = left + WIDTH - RIGHT, top + HEIGHT - BOTTOM
    left, top = left + LEFT, top + TOP
    x = scale(sizes, left + 15, right - left - 30)
    y = scale(marks, bottom, top - bottom)
    yield f'<text class="t" x="{(left + right) // 2}" y="{top - 10}">{title}</text>'
    yield f'<text class="x" transform="translate({left - 50} {(top + bottom) // 2})rotate(-90)">µs</text>'
    for mark in marks:
        yield f'<path class="g" d="M{left} {y(mark)}H{right}"/>' \
              f'<text class="y" x="{left - 5}" y="{y(mark) + 4}">{mark:g}</text>'
    for number, size in enumerate(sizes):
        yield f'<path class="g" d="M{x(size)} {top}V{bottom}"/>' \
              f'<text class="x" x="{x(size)}" y="{bottom + 15 + 13 * (number % 2)}">{size_words(size)}</text>'
    yield f'<path class="f" d="M{left} {top}H{right}V{bottom}H{left}Z"/>'
    for program, points in reversed(lines):  # tutti lies above the others
        places = [f'{x(size)} {y(time)}' for size, time in points]
        yield f'<g stroke="{COLOURS[program.name]}">' \
              f'<path class="l" stroke-width="{3 if program.name == "tutti" else 1.5}" d="M{"L".join(places)}"/>' \
              f'<path class="p" stroke-width="6" d="{"".join(f"M{place}h0" for place in places)}"/></g>'


def legend(programs):
    for number, program in enumerate(programs):
        at = LEFT + 120 * number
        yield f'<path stroke="{COLOURS[program.name]}" stroke-width="3" d="M{at} 18h25"/>' \
              f'<text x="{at + 30}" y="22">{program.label}</text>'


def svg(found):
    """Of the panels that there are, two in a row."""
    programs = list(dict.fromkeys(program for _, lines in found for program, _ in lines))
    width = max(WIDTH * min(len(found), 2), LEFT + 120 * len(programs))
    height = LEGEND + HEIGHT * ((len(found) + 1) // 2)
    elements = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                f'viewBox="0 0 {width} {height}">', f'<style>{STYLE}</style>',
                '<rect width="100%" height="100%" fill="#fff"/>', *legend(programs)]
    for number, (title, lines) in enumerate(found):
        elements += panel(title, lines, WIDTH * (number % 2), LEGEND + HEIGHT * (number // 2))
    return '\n'.join([*elements, '</svg>', ''])


def draw(session, folder):
    """{operation: {backend: file name}} of those of which there is something to see."""
    drawn = {}
    for backend, operation in dict.fromkeys((cell.backend, cell.operation) for cell in session.cells):
        found = panels(session, operation, backend)
        if found:
            name = f'{machine.slug()}-{operation.replace("_", "-")}-{backend}.svg'
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                file.write(svg(found))
            drawn.setdefault(operation, {})[backend] = name
    return drawn
