# SPDX-License-Identifier: Apache-2.0
"""The tables: as text for a terminal, and as the Markdown file of a CPU. Both begin where tutti loses.

`Session` is what was measured, and is all that a report reads.
"""
import os
from dataclasses import dataclass, field

from . import machine
from .figures import ENOUGH, UNPROBED, regimes_of

LEAD = 1.1  # less is no clear lead


@dataclass
class Session:
    programs: list  # tutti first
    cells: list
    figures: object
    build: str
    tree: str
    words: str  # of the command line
    rounds: int
    whole_rounds: int = 0
    seconds: float = 0
    load_before: str = ''
    absent: list = field(default_factory=list)  # why peers take no part at all

    def tables(self):
        """(backend, ranks) in their order."""
        return list(dict.fromkeys((cell.backend, cell.ranks) for cell in self.cells))

    def program(self, name):
        return next(program for program in self.programs if program.name == name)

    def ratio(self, cell, regime):
        return self.figures.ratio(cell, regime, [
            program.name for program in self.present(cell.backend, cell.ranks)[1:]])

    def ratios(self):
        """All there are, the worst first."""
        found = [self.ratio(cell, regime) for cell in self.cells for regime in regimes_of(cell.ranks)]
        return sorted((ratio for ratio in found if ratio), key=lambda ratio: ratio.ratio)

    def present(self, backend, ranks):
        return [program for program in self.programs if not program.left_out(backend, ranks)]

    def failures(self):
        return [(cell, program, self.figures.failures[cell, program.name])
                for cell in self.cells for program in self.programs
                if (cell, program.name) in self.figures.failures]

    def progress(self):
        whole = f'{self.whole_rounds} of {self.rounds} rounds'
        return f'{whole} in {duration(self.seconds)}' + \
            ('' if self.whole_rounds == self.rounds else '; interrupted')


def link_words(regime):
    return 'not probed' if regime == UNPROBED else regime


def ratio_words(ratio, width=0):
    return f'{ratio.ratio:>{width}.2f}' + (' ~' if ratio.close else '') + ('' if ratio.certain else ' ?')


def duration(seconds):
    return f'{seconds / 60:.0f} min' if seconds >= 90 else f'{seconds:.0f} s'


@dataclass
class Standing:
    """Every ratio is in one of these."""

    behind: list
    narrow: list
    uncertain: list  # too few samples to say that tutti leads
    ahead: list
    failed: int  # cells in which tutti failed, and which have no ratio

    @property
    def all(self):
        return self.behind + self.narrow + self.uncertain + self.ahead

    def parts(self):
        """(title, ratios) of those that a reader has to see."""
        if not self.all:
            return []
        return [('Cells in which the best peer is faster', self.behind),
                (f'Cells in which tutti leads by less than {LEAD}', self.narrow),
                (f'Cells with fewer than {ENOUGH} samples of tutti or of a peer', self.uncertain)]

    def rest(self):
        failed = f'tutti failed in {self.failed} cells, see below. ' if self.failed else ''
        if not self.all:
            return failed + 'There is no ratio: in no cell have tutti and a peer figures for the same link.'
        return f'{failed}In {len(self.ahead)} of {len(self.all)} cells tutti is {LEAD} times as fast as the ' \
               'best peer or more.'


def standing(session):
    ratios = session.ratios()
    behind = [ratio for ratio in ratios if ratio.ratio < 1]
    narrow = [ratio for ratio in ratios if 1 <= ratio.ratio < LEAD]
    uncertain = [ratio for ratio in ratios if ratio.ratio >= LEAD and not ratio.certain]
    return Standing(behind, narrow, uncertain,
                    [ratio for ratio in ratios if ratio.ratio >= LEAD and ratio.certain],
                    sum(program is session.programs[0] for _, program, _ in session.failures()))


def not_seen(session):
    """(backend, ranks, regime) in which no sample of any program counts."""
    return [(backend, ranks, regime) for backend, ranks in session.tables()
            for regime in regimes_of(ranks) if not session.figures.seen(regime, backend, ranks)]


# ---- a terminal --------------------------------------------------------------------------------

def text_losses(session):
    found = standing(session)
    lines = []
    for title, ratios in found.parts():
        lines.append(f'{title}: {len(ratios) or "none"}')
        for ratio in ratios:
            cell = ratio.cell
            lines.append(f'  {ratio_words(ratio):<9} {cell.operation:<16} {cell.bytes:>9} B {cell.ranks:>3} ranks'
                         f'  {cell.backend}  {link_words(ratio.regime):<10} {ratio.tutti.median:.3f} '
                         f'against {ratio.best.median:.3f} us of {session.program(ratio.peer).label}')
    lines.append(found.rest())
    if found.all:
        lines.append(f'~: the middle halves of the samples overlap. ?: fewer than {ENOUGH} samples of tutti or '
                     'of a peer.')
    return lines


def text_table(session, backend, ranks):
    programs = session.present(backend, ranks)
    lines = [f'{"operation":<16} {"bytes":>9} {"ranks":>5} {"mode":<8} {"link":<6}' +
             ''.join(f' {program.column(backend):>12}' for program in programs) +
             f' {"best/tutti":>12}']
    figures = session.figures
    for cell in session.cells:
        if (cell.backend, cell.ranks) != (backend, ranks):
            continue
        for regime in regimes_of(ranks):
            row = [figures.figure(cell, program.name, regime) for program in programs]
            if not any(row):
                continue
            ratio = session.ratio(cell, regime)
            lines.append(f'{cell.operation:<16} {cell.bytes:>9} {cell.ranks:>5} '
                         f'{figures.modes[cell]:<8} {regime:<6}' +
                         ''.join(f' {figure.median:>12.3f}' if figure else f' {"-":>12}'
                                 for figure in row) +
                         ' ' + (ratio_words(ratio, 12) if ratio else f'{"-":>12}'))
    return lines


def text(session):
    lines = text_losses(session)
    for backend, ranks in session.tables():
        lines += ['', *text_table(session, backend, ranks)]
    lines.append('')
    for backend, ranks, regime in not_seen(session):
        lines.append(f'not seen: {backend}, {ranks} ranks, {link_words(regime)}')
    for cell, program, words in session.failures():
        lines += [f'failed: {program.label} {where(cell)} {words[0]}',
                  *(f'    {line}' for line in words[1:])]
    lines.append(session.progress())
    return '\n'.join(lines)


# ---- Markdown ----------------------------------------------------------------------------------

def where(cell):
    return f'in {cell.operation} of {cell.bytes} bytes, {cell.ranks} ranks, {cell.backend},'


def table(head, rows):
    yield '| ' + ' | '.join(head) + ' |'
    yield '|' + ' --- |' * len(head)
    for row in rows:
        yield '| ' + ' | '.join(row) + ' |'


def loss_rows(session, ratios):
    for ratio in ratios:
        cell = ratio.cell
        yield (ratio_words(ratio), cell.operation, str(cell.bytes), str(cell.ranks), cell.backend,
               link_words(ratio.regime), f'{ratio.tutti.median:.3f}', f'{ratio.best.median:.3f}',
               session.program(ratio.peer).label)


def markdown_losses(session):
    head = ('best/tutti', 'operation', 'bytes', 'ranks', 'backend', 'link', 'tutti, µs', 'best, µs',
            'peer')
    found = standing(session)
    yield '## Where tutti loses'
    for title, ratios in found.parts():
        yield from ('', f'{title}: {len(ratios) or "none"}.')
        if ratios:
            yield ''
            yield from table(head, loss_rows(session, ratios))
    yield from ('', found.rest())
    missing = not_seen(session)
    if missing:
        yield ''
        yield 'Not seen in this session: ' + '; '.join(
            f'{backend}, {ranks} ranks, {link_words(regime)}' for backend, ranks, regime in missing) + '.'


def markdown_failures(session):
    failures = session.failures()
    if not failures:
        return
    yield ''
    yield '## What failed'
    yield ''
    yield 'A program has no figures in a cell in which a run of it failed.'
    for cell, program, words in failures:
        yield ''
        yield f'{program.label} {where(cell)} {words[0]}'
        if words[1:]:
            yield ''
            yield from (f'    {line}' for line in words[1:])


def left_out_words(session):
    """A line for each peer and reason."""
    tables = {}
    for program in session.programs:
        for backend, ranks in session.tables():
            if reason := program.left_out(backend, ranks):
                tables.setdefault((program.label, reason), []).append(f'{backend} ({ranks} ranks)')
    return [f'{label} is left out over {", ".join(where_)}: {reason}.'
            for (label, reason), where_ in tables.items()]


def markdown_machine(session):
    yield '## Machine and programs'
    yield ''
    yield from table(('what', 'value'), machine.rows(session.build, session.tree, session.programs,
                                                     session.figures, session.load_before))
    notes = [*(' '.join(words.split()) for words in session.absent), *left_out_words(session)]
    if notes:
        yield ''
        yield from (f'- {words}' for words in notes)
    yield ''
    yield 'A time is the median in microseconds of a call on the slowest rank; then the middle half of the ' \
          'samples, and\nhow many samples counted. «best/tutti» is the time of the best peer divided by ' \
          'tutti\'s. «~»: the\nmiddle halves of these two overlap. «?»: tutti or a peer has fewer than ' \
          f'{ENOUGH} samples there. Pitfalls in\nbench/README.md says what near, far, hot and touched mean.'


def time_words(session, cell, program, regime):
    figures = session.figures
    if figure := figures.figure(cell, program.name, regime):
        return f'{figure.median:.3f} ({figure.low:.3f}–{figure.high:.3f}; {figure.count})'
    if (cell, program.name) in figures.failures:
        return 'failed'
    if (cell.operation, program.name) in figures.not_offered:
        return 'not offered'
    return 'not seen' if figures.works(cell, program.name) else 'left out'


def markdown_table(session, cells, backend, ranks, regime):
    programs = session.present(backend, ranks)

    def row(cell):
        ratio = session.ratio(cell, regime)
        return (str(cell.bytes), session.figures.modes.get(cell, '–'),
                *(time_words(session, cell, program, regime) for program in programs),
                ratio_words(ratio) if ratio else '–')

    yield from table(('bytes', 'mode', *(program.label for program in programs), 'best/tutti'),
                     map(row, cells))


def markdown_operation(session, operation, pictures):
    yield f'## {operation}'
    for backend, picture in pictures.items():
        yield ''
        yield f'![Time of {operation} over {backend} by size, for each program]({picture})'
    for backend, ranks in session.tables():
        cells = [cell for cell in session.cells
                 if (cell.backend, cell.ranks, cell.operation) == (backend, ranks, operation)]
        for regime in regimes_of(ranks) if cells else ():
            yield ''
            yield f'### {operation}, {backend}, {ranks} ranks' + \
                ('' if regime == UNPROBED else f', {regime}')
            yield ''
            if session.figures.seen(regime, backend, ranks):
                yield from markdown_table(session, cells, backend, ranks, regime)
            else:
                yield 'Not seen.'


def markdown(session, pictures):
    """`pictures`: of an operation, the file of each backend."""
    lines = [f'# tutti beside its peers on {machine.cpu()}', '',
             f'Written by `{session.words}`: {session.progress()}.', '',
             *markdown_losses(session), *markdown_failures(session), '', *markdown_machine(session)]
    for operation in dict.fromkeys(cell.operation for cell in session.cells):
        lines += ['', *markdown_operation(session, operation, pictures.get(operation, {}))]
    return '\n'.join(lines) + '\n'


def save(session, folder, pictures):
    """The path of the file that is written, whole or not at all."""
    path = os.path.join(folder, machine.slug() + '.md')
    with open(path + '.new', 'w', encoding='utf-8') as file:
        file.write(markdown(session, pictures))
    os.replace(path + '.new', path)
    return path
