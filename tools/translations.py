"""Keep the translations in step with the English, which never waits for them.

    python tools/translations.py           what `make notebooks` does at its end
    python tools/translations.py --list    write nothing; say what there is to translate
    python tools/translations.py --same notebooks-zh/01_architecture.md
    python tools/translations.py --open notebooks-zh/01_architecture.md
    python tools/translations.py --check   write nothing; say what isn't in step

A language is a folder notebooks-<code>. Its pages have the names of the English ones:
the chapters, their solutions, the glossary, README.md, TEACHING.md. Its messages.toml
has the notes that readers see, and its words.toml what isn't prose (wording.py). Every
cell of prose ends in a mark, <!-- en: 1a2b3c4d -->, the beginning of the SHA-256 of the
English cell that it translates. A page without code is cut into cells at its headings
and its entries, the items of a list that begin in bold.

Code, outputs, and ids come from the English notebook; comments and the words of charts
and figures are put into the language. A cell of prose is found again by its mark,
wherever it went. Where the English has changed since, the translation stays, and both a
note for readers and the mark say so: <!-- en: 1a2b3c4d, now 5e6f7a8b -->. Where there
is no translation, the English stands in. The list shows, word by word, how the English
of a stale cell has changed, as far as git's history here goes back. Where it means
what it meant, `--same` says so for a page.

A page is no patchwork: where the English of more than a third of it has changed or is
gone, it stays as it was, code and outputs included, and says so at its top, until most
of it is translated again. `--open` puts the new English of such a page beside the old
translation, for whoever translates it.
"""

import argparse
import copy
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jupytext
import messages
import nbformat
import wording
from chapters import ROOT, Refused, cells_of, pair, replace, tags
from links import LINK, anchor, links, titles
from nbformat import NotebookNode

MARK = re.compile(
    r"<!-- en: (?P<old>[0-9a-f]{8})"
    r"(, (?P<state>now|untranslated) (?P<new>[0-9a-f]{8}))? -->"
)
WHOLE = "<!-- whole -->"  # a page with it is as it was before its English changed
NOTE = re.compile(r"\n* *> [^\n]*<!-- (note|whole) -->\n*")
CHANGED = 1 / 3  # of a page, above which it stays whole
NEAR = 5  # words on either side of a change
ENTRY = "- **"
UNCHANGED = {  # beside links; comments in a listing can be translated
    "listings": re.compile(r"^```.*?^```", re.M | re.S),
    "headings": re.compile(r"^#+(?= )", re.M),
    "code": re.compile(r"(?<!`)`[^`]+`(?!`)"),
    "formulas": re.compile(r"\$\$.+?\$\$", re.S),
    "formulas in a line": re.compile(r"\$[^$]+\$"),
}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _plain(text: str) -> str:
    """Return a digest that line breaks don't change."""
    return digest(" ".join(text.split()))


def cells(path: Path) -> list[NotebookNode]:
    """Return the cells of a chapter, or of a page without code."""
    return divided(path.name, path.read_text(encoding="utf-8"))


def divided(name: str, text: str) -> list[NotebookNode]:
    """Return the cells of a page's text."""
    if name[0].isdigit():
        return copy.deepcopy(cells_of(text, ".md"))
    parts = [""]
    fenced = False
    for line in text.splitlines(keepends=True):
        if not fenced and line.startswith(("# ", "## ", "### ", ENTRY)):
            parts.append("")
        fenced ^= line.startswith("```")
        parts[-1] += line
    texts = [part.strip() for part in parts]
    return [nbformat.v4.new_markdown_cell(text) for text in texts if text]


def written(path: Path, found: list[NotebookNode]) -> str:
    """Return the cells as the text of a page; undoes `cells`."""
    if path.name[0].isdigit():
        notebook = nbformat.v4.new_notebook(cells=found)
        notebook.metadata["jupytext"] = {"notebook_metadata_filter": "-all"}
        return jupytext.writes(notebook, "md")
    text = ""
    for cell in found:
        listed = text.rpartition("\n\n")[2].startswith(ENTRY)
        text = text and text + ("\n" if listed and cell.source[:4] == ENTRY else "\n\n")
        text += cell.source
    return text + "\n"


def changes(old: str, new: str) -> str:
    """Return what has changed from one text to another, word by word."""
    a, b = old.split(), new.split()
    said = []
    for kind, i, j, k, end in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind != "equal":
            said += ["[-" + " ".join(a[i:j]) + "-]"] if i < j else []
            said += ["{+" + " ".join(b[k:end]) + "+}"] if k < end else []
        elif j - i > 2 * NEAR:
            said += [*a[i : i + NEAR], "…", *a[j - NEAR : j]]
        else:
            said += a[i:j]
    return " ".join(said)


@functools.cache
def history(path: Path) -> dict[str, str]:
    """Return the cells that a page has had, by digest; none where git has none."""
    found = {}
    try:
        for commit in _git(path, "log", "-n50", "--format=%h", "--", path.name).split():
            text = _git(path, "show", f"{commit}:./{path.name}")
            sources = (cell.source for cell in divided(path.name, text))
            found |= {digest(source): source for source in sources}
    except (
        OSError,
        subprocess.CalledProcessError,
    ):  # no git, or a copy without history
        pass
    return found


def _git(path: Path, *command: str) -> str:
    done = subprocess.run(
        ["git", *command], cwd=path.parent, capture_output=True, check=True
    )
    return done.stdout.decode()


@dataclass
class Cell:
    """A cell of prose as the translation has it."""

    text: str  # without mark and note
    old: str  # digest of the English cell it was made from
    keys: list[str]  # of the English cells it belongs to, best first


def _parsed(where: str, source: str) -> Cell:
    """Take a cell of prose apart; its text is "" where the English stands in.

    Raises `Refused` unless it ends in one mark.
    """
    marks = list(MARK.finditer(source))
    if len(marks) != 1 or not source.rstrip().endswith(marks[0][0]):
        raise Refused(
            f"{where}: end this cell in the one mark of the English cell that it "
            "translates (two blank lines begin a new cell)"
        )
    text = NOTE.sub("\n\n", MARK.sub("", source)).strip()
    old, state, new = marks[0].group("old", "state", "new")
    if state == "untranslated" and new == _plain(text):
        text = ""
    return Cell(text, old, [new, old] if state == "now" else [old])


def words(text: str) -> bool:
    """Say whether a text has words to translate, beside code and formulas."""
    return bool(re.search(r"[^\W\d_]{3}", bare(text)[0]))


class Unexecuted(Refused):
    """An English notebook has yet to be executed."""


@dataclass
class Page:
    """A page of a translation, with the English page that it translates."""

    path: Path
    english: Path
    theirs: list[NotebookNode]  # the English cells
    ours: dict[int, Cell] = field(default_factory=dict)  # by the English cell's number
    lost: list[str] = field(default_factory=list)  # texts without an English cell

    def place(self, number: int, text: str) -> str:
        start = text.partition("\n")[0][:50]
        return f"{self.path.parent.name}/{self.path.name}, cell {number + 1} ({start})"

    def prose(self) -> Iterator[tuple[int, str, Cell | None]]:
        """Yield number and text of each English cell of prose, and its translation."""
        for number, cell in enumerate(self.theirs):
            if cell.cell_type == "markdown" and cell.source.strip():
                yield number, cell.source, self.ours.get(number)

    def rewritten(self) -> bool:
        """Say whether too much of the English has changed since the translation."""
        stale = [n for n, text, c in self.prose() if c and c.old != digest(text)]
        changed = len(stale) + len(self.lost)
        return changed > CHANGED * (len(self.ours) + len(self.lost))

    def by_number(self) -> dict[str, str]:
        """Return what ``headings`` does, for a page of an earlier English one."""
        ours = {_kind(t): t for t in titles(self.path.read_text(encoding="utf-8"))}
        theirs = titles("\n\n".join(cell.source for cell in self.theirs))
        found = {title: ours.get(_kind(title), title) for title in theirs}
        return {anchor(a): anchor(b) for a, b in found.items() if _number(a)}

    def headings(self) -> dict[str, str]:
        """Return the translated anchor of every English one."""
        found = {}
        for _, source, ours in self.prose():
            two = titles(source), titles(ours.text if ours else source)
            if len(two[0]) != len(two[1]):  # a stale cell: go by the numbers
                known = {_number(title): title for title in two[1]}
                two = two[0], [known.get(_number(title), title) for title in two[0]]
            found |= {anchor(a): anchor(b) for a, b in zip(*two)}
        return found


def _kind(title: str) -> tuple[bool, str]:
    """Return whether a heading is an exercise's or a section's, and its number."""
    return title[:1].isdigit(), _number(title)


def _number(title: str) -> str:
    return "".join(re.findall(r"\d+\.\d+", title)[:1])


def _section(link: str) -> tuple[str, str]:
    """Return the name of a link's file and the number of its section."""
    name, _, title = link.partition("#")
    return name if ":" in name else Path(name).name, _number(title)


def aligned(path: Path, english: Path, words: wording.Words) -> Page:
    """Find the English cell of every translated one.

    Marks decide, wherever a cell stands. A cell whose English has changed is found by
    its place between neighbors that have not, and if there are several, by the code,
    formulas, and links in it.
    """
    page = Page(path, english, cells(english))
    keys = [digest(c.source) if c.cell_type == "markdown" else worded(c, words)
            for c in page.theirs]  # fmt: skip
    free = [number for number, *_ in page.prose()]
    sequence, rest = [], {}
    for number, cell in enumerate(cells(path)):
        sequence.append(cell.source)
        if cell.cell_type == "markdown" and cell.source.strip():
            found = _parsed(page.place(number, cell.source), cell.source)
            sequence[-1] = found.keys[0]
            hits = [i for key in found.keys for i in free if keys[i] == key]
            if found.text and hits:
                page.ours[hits[0]] = found
                free.remove(hits[0])
            elif found.text:
                rest[number] = found
    blocks = SequenceMatcher(None, sequence, keys, autojunk=False).get_opcodes()
    for _, a, b, c, d in blocks:
        old = [rest[i] for i in range(a, b) if i in rest]
        new = [i for i in range(c, d) if i in free]

        def alike(cell: Cell, number: int) -> float:
            return _alike(page.theirs[number].source, cell.text)

        while len(old) > len(new):
            scores = [max([alike(cell, i) for i in new], default=0) for cell in old]
            page.lost.append(old.pop(scores.index(min(scores))).text)
        for left, cell in zip(range(len(old), 0, -1), old):
            best = max(new[: len(new) - left + 1], key=lambda i: alike(cell, i))
            page.ours[best] = cell
            new = new[new.index(best) + 1 :]
    return page


def worded(cell: NotebookNode, words: wording.Words) -> str:
    """Return a cell of code with its comments in the language."""
    return wording.code(cell.source, words, docstrings="exercise" in tags(cell))


def bare(text: str) -> tuple[str, dict[str, Counter]]:
    """Return the words of a text, and apart from them what no translation changes."""
    parts = {}
    for kind, pattern in UNCHANGED.items():
        found = (re.sub(r"(?m) # .*", "", part) for part in pattern.findall(text))
        parts[kind] = Counter(" ".join(part.split()) for part in found)
        text = pattern.sub("", text)
    parts["links"] = Counter(links(text))
    return LINK.sub(lambda link: link["words"] or "", text), parts


def _alike(one: str, other: str) -> float:
    """Return how much two cells share of what no translation changes, from 0 to 1."""
    a, b = (sum(bare(text)[1].values(), Counter()) for text in (one, other))
    return (a & b).total() / max((a | b).total(), 1)


def differences(source: str, text: str) -> Iterator[str]:
    """Yield what an English cell and its translation should share but don't."""
    theirs, ours = bare(source)[1], bare(text)[1]
    for kind in theirs:
        if theirs[kind] != ours[kind]:
            gone, extra = theirs[kind] - ours[kind], ours[kind] - theirs[kind]
            yield (f"{kind}: only in the English {list(gone.elements())}, "
                   f"only in the translation {list(extra.elements())}")  # fmt: skip


class Language:
    """All pages of one language, brought in line with the English in memory.

    The pages ``same`` are taken for translations of today's English.
    """

    def __init__(
        self,
        folder: Path,
        root: Path = ROOT,
        opened: Sequence[Path] = (),
        same: Sequence[Path] = (),
    ):
        self.folder, self.root = folder, root
        text = (folder / "messages.toml").read_text(encoding="utf-8")
        self.messages = tomllib.loads(text)
        self.words = wording.Words.of(folder)
        self.images = root / "images" / folder.name.removeprefix("notebooks-")
        self.pages: dict[Path, Page] = {}  # by their English pages
        for path in sorted([*folder.glob("*.md"), *folder.glob("solutions/*.md")]):
            name = path.relative_to(folder)
            places = [top / name for top in (root / "notebooks", root)]
            english = next((place for place in places if place.exists()), None)
            if not english:
                where = f"{folder.name}/{name}"
                raise Refused(f"{where}: no English page has this name; rename it")
            self.pages[english] = aligned(path, english, self.words)
        for page in self.pages.values():
            for _, source, ours in page.prose() if page.path in same else ():
                if ours:
                    ours.old = digest(source)
        pages = [p for p in self.pages.values() if p.path not in opened]
        self.whole = {page.path for page in pages if page.rewritten()}
        self.figures = self._figures()
        self.anchors = {page.english: page.headings() for page in self.pages.values()}
        for page in self.pages.values():
            if page.path in self.whole:
                self.anchors[page.english] = page.by_number()

    def _figures(self) -> dict[Path, str]:
        """Return the figures that the pages show, with their words in the language."""
        texts = [cell.source for page in self.pages.values() for cell in page.theirs]
        shown = re.findall(r"\.\./images/(\w+\.svg)", "\n".join(texts))
        found = {}
        for path in sorted({self.root / "images" / name for name in shown}):
            if path.exists():
                svg = path.read_text(encoding="utf-8")
                found[self.images / path.name] = wording.figure(svg, self.words)
        return found

    def anchor(self, english: Path, mark: str) -> str:
        """Return what an anchor of an English page is in the translation."""
        found = self.anchors[english].get(unquote(mark))
        return found or mark

    def target(self, link: str, page: Page) -> str:
        """Return where a link of the English page leads in the translation."""
        name, _, mark = link.partition("#")
        if not name:
            return "#" + self.anchor(page.english, mark)
        there = Path(os.path.normpath(page.english.parent / name))
        source = there.with_suffix(".md")
        if not (
            there.is_relative_to(self.root) and (there.exists() or source.exists())
        ):
            return link
        if self.images / there.name in self.figures and there.parent.name == "images":
            there = self.images / there.name
        elif there.is_relative_to(self.folder):
            there = page.english  # the English names its translation, and that, it
        elif source in self.pages:
            there = self.pages[source].path.with_suffix(there.suffix)
            mark = self.anchor(source, mark)
        elif there.is_dir() and (self.folder / there.name).is_dir():
            there = self.folder / there.name
        to = Path(os.path.relpath(there, page.path.parent)).as_posix()
        return to + "/" * name.endswith("/") + (f"#{mark}" if mark else "")

    def relinked(self, text: str, page: Page, source: str) -> str:
        """Return a text with its links mapped; source is the English cell.

        A link to a page or a heading that has been translated since follows it.
        """
        targets = {link: self.target(link, page) for link in links(source)}
        lost = set(targets.values()) - set(links(text))

        def mapped(link: re.Match) -> str:
            to = link["to"]
            if not to or to in targets.values():
                return link[0]
            same = [x for x in lost if _section(x) == _section(to)]
            new = targets.get(to) or (same[0] if len(same) == 1 else to)
            return link[0][: -len(to) - 1] + new + ")"

        return LINK.sub(mapped, text)

    def source(self, page: Page, source: str, ours: Cell | None) -> str:
        """Return a cell of prose as it is written, with its note and its mark."""
        text = self.relinked(ours.text if ours else source, page, source)
        state, note, now = "", "", digest(source)
        if not ours and words(source):
            state, note = f", untranslated {_plain(text)}", "missing"
        elif ours and ours.old != now:
            state, note = f", now {now}", "stale"
        mark = f"<!-- en: {ours.old if ours else now}{state} -->"
        note = note and f"> {self.messages['notes'][note]} <!-- note -->"
        if text.startswith(ENTRY):
            return f"{text}\n  {note} {mark}" if note else f"{text} {mark}"
        head, _, body = text.partition("\n") if text[:1] == "#" else ("", "", text)
        parts = (head, note, body.strip(), mark)
        return "\n\n".join(part for part in parts if part)

    def noted(self, text: str) -> str:
        """Return a page, or its first cell, with the note that it is as it was."""
        if WHOLE in text:
            return text
        head, _, body = text.partition("\n")
        return f"{head}\n\n> {self.messages['notes']['whole']} {WHOLE}\n{body}"

    def files(self) -> dict[Path, str]:
        """Return what the files of this language should hold.

        Raises `Unexecuted` where an English notebook isn't that of today's chapter.
        """
        found = dict(self.figures)
        for page in self.pages.values():
            if page.path in self.whole:
                found[page.path] = self.noted(page.path.read_text(encoding="utf-8"))
                if pair(page.path).exists():
                    notebook = nbformat.read(pair(page.path), 4)
                    notebook.cells[0].source = self.noted(notebook.cells[0].source)
                    found[pair(page.path)] = nbformat.writes(notebook) + "\n"
                continue
            texts = {i: self.source(page, *rest) for i, *rest in page.prose()}
            cells = [nbformat.from_dict(dict(cell)) for cell in page.theirs]
            for number, cell in enumerate(cells):
                if cell.cell_type == "code":
                    texts[number] = worded(cell, self.words)
                cell.source = texts.get(number, "")
            found[page.path] = written(page.path, cells)
            if page.path.name[0].isdigit():
                path = pair(page.english)
                executed = nbformat.read(path, 4) if path.exists() else None
                theirs = executed.cells if executed else []
                if [c.source for c in theirs] != [c.source for c in page.theirs]:
                    raise Unexecuted(
                        f"{path.name} isn't that of today's {path.stem}.md; "
                        "run `make notebooks`"
                    )
                for name in ("executed", "exercises"):  # digests of the English
                    executed.metadata.pop(name, None)
                pictures = stored_pictures(pair(page.path))
                for number, cell in enumerate(theirs):
                    cell.source = texts.get(number, "")
                    for output in cell.get("outputs", ()):
                        self.translate(output, pictures)
                found[pair(page.path)] = nbformat.writes(executed) + "\n"
        return found

    def translate(self, output: NotebookNode, pictures: dict) -> None:
        """Put an output into the language: a chart, or what a check says."""
        if text := output.get("text"):
            for english in ("Exercise {0}: not answered yet.", "Exercise {0}: right."):
                said = self.messages.get("exercises", {}).get(english, english)
                pattern = re.escape(english).replace(r"\{0\}", r"([\w.]+)")
                text = re.sub(pattern, said.replace("{0}", r"\1"), text)
            output.text = text
        for kind in charts(output):
            data = output.data
            before, data[kind] = data[kind], wording.chart(data[kind], self.words)
            if data[kind] != before and "image/png" in data:
                key = json.dumps(data[kind], sort_keys=True)
                if key not in pictures:
                    font = self.words.tables["font"]
                    pictures[key] = wording.picture(data[kind], self.folder, font)
                data["image/png"] = pictures[key]

    def left_out(self) -> Iterator[str]:
        """Yield the texts whose English is gone."""
        for page in self.pages.values():
            name = f"{self.folder.name}/{page.path.name}"
            for text in page.lost if page.path not in self.whole else ():
                yield f"{name}: no English cell has this text; left out:\n{text}"

    def news(self) -> Iterator[str]:
        """Yield what a translator has to do; `files` comes first."""
        for page in self.pages.values():
            name = f"{self.folder.name}/{page.path.name}"
            if page.path in self.whole:
                yield (f"{name}: its English has been rewritten; to translate it, "
                       f"python tools/translations.py --open {name}")  # fmt: skip
                continue
            for number, source, ours in page.prose():
                where = page.place(number, ours.text if ours else source)
                now = digest(source)
                if not ours and words(source):
                    yield f"{where}: not translated yet"
                elif ours and ours.old != now:
                    before = history(page.english).get(ours.old)
                    told = f"{where}: stale; up to date, its mark is <!-- en: {now} -->"
                    yield told + (f"\n    {changes(before, source)}" if before else "")
                elif ours:
                    two = (self.relinked(x, page, source) for x in (source, ours.text))
                    yield from (f"{where}: {fault}" for fault in differences(*two))
        for table, text in sorted(self.words.missing):
            yield f"{self.folder.name}/words.toml, [{table}]: lacks {text!r}"
        for text in messages.missing(self.folder):
            yield f"{self.folder.name}/messages.toml lacks {text!r}"


def charts(output: NotebookNode) -> list[str]:
    """Return the kinds of an output's data that are charts."""
    return [kind for kind in output.get("data", ()) if kind.startswith(wording.CHART)]


def stored_pictures(path: Path) -> dict[str, str]:
    """Return the pictures of a notebook's charts, by their specifications."""
    cells = nbformat.read(path, 4).cells if path.exists() else []
    return {
        json.dumps(output.data[kind], sort_keys=True): output.data["image/png"]
        for cell in cells
        for output in cell.get("outputs", ())
        for kind in charts(output)
        if "image/png" in output.data
    }


def folders(root: Path = ROOT) -> list[Path]:
    return sorted(path for path in root.glob("notebooks-*") if path.is_dir())


def faults(language: Language) -> Iterator[str]:
    """Yield which files of a language aren't as they would be written."""
    for path, text in language.files().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            where = path.relative_to(language.root).as_posix()
            yield f"{where}: not in step with the English; run `make notebooks`"
    if letters := wording.not_in_font(language.folder):
        where = f"{language.folder.name}/words.toml"
        yield f"{where}: the charts' font has no {' '.join(letters)}; say it otherwise"


def update(language: Language) -> None:
    """Write the files of a language."""
    for path, text in language.files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--list", action="store_true", help="write nothing; say what to translate"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; say what isn't in step"
    )
    pages: dict[str, Any] = {
        "nargs": "+", "metavar": "PAGE", "default": [],
        "type": lambda path: Path(path).resolve(),
    }  # fmt: skip
    parser.add_argument(
        "--same", **pages, help="say that a page translates today's English as it is"
    )
    parser.add_argument(
        "--open",
        **pages,
        help="put the new English of a page that has stayed as it was into it",
    )
    arguments = parser.parse_args()
    found: list[str] = []
    try:
        for folder in folders():
            language = Language(folder, opened=arguments.open, same=arguments.same)
            if arguments.check:
                found += faults(language)
                continue
            if arguments.open or arguments.same or not arguments.list:
                update(language)
            else:
                language.files()  # notes the words that are missing
            todo = list(language.news())
            said = [*language.left_out(), *(todo if arguments.list else ())]
            print(*said, sep="\n", end="\n" * bool(said))
            left = f"{len(todo)} to-do{'s' * (len(todo) != 1)}"
            print(f"{folder.name}: {len(language.pages)} pages, {left}")
    except Unexecuted as refusal:
        if not arguments.check:  # check.py says it of the English
            found.append(str(refusal))
    except Refused as refusal:
        found.append(str(refusal))
    print(*found, sep="\n", end="\n" * bool(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
