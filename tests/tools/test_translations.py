"""Translations stay in step with the English, and lose no text."""

import re
import shutil
import subprocess

import jupytext
import nbformat
import pytest
from chapters import Refused, pair
from links import dead
from translations import Language, bare, cells, digest, faults, folders, update

WORDS = "font = ''\nsame = []\n[charts]\n[figures]\n[code]\n"
NOTES = "[notes]\nmissing = 'FEHLT NOCH'\nstale = 'VERALTET'\nwhole = 'VON FRÜHER'\n"

# A small book

ONE = """\
# 1 · One

Hello, `world`. See [two](02_two.ipynb#2.1-A-word) and [three](03_three.ipynb#3.1-End).

```python
x = 1
```

## 1.1 Sums

A sum $a + b$ of two numbers, in [the glossary](glossary.md).


![A picture](../images/a.svg)

```python
x + 1
```

The end of [1.1](#1.1-Sums).
"""
TWO = "# 2 · Two\n\n## 2.1 A word\n\nText: [below](#More-(2.1)).\n\n## More (2.1)\n"
THREE = "# 3 · Three\n\n## 3.1 End\n\nText.\n"
GLOSSARY = """\
# Glossary

The terms.

- **Sum** · `x` · What addition gives.
  [1.1](01_one.ipynb#1.1-Sums)
- **Word** · `y` · A string.
  [2.1](02_two.ipynb#2.1-A-word)
"""
ENGLISH = {
    "01_one.md": ONE, "02_two.md": TWO, "03_three.md": THREE, "glossary.md": GLOSSARY,
}  # fmt: skip
GERMAN = {
    "# 1 · One": "# 1 · Eins",
    "Hello, `world`. See [two]": "Hallo, `world`. Siehe [zwei]",
    "and [three]": "und [drei]",
    "## 1.1 Sums": "## 1.1 Summen",
    "A sum $a + b$ of two numbers, in [the glossary]": "Die Summe $a + b$, [Glossar]",
    "![A picture]": "![Ein Bild]",
    "The end of [1.1]": "Das Ende von [1.1]",
    "# 2 · Two": "# 2 · Zwei",
    "## 2.1 A word": "## 2.1 Ein Wort",
    "Text: [below]": "Der Text: [unten]",
    "## More (2.1)": "## Mehr (2.1)",
    "# Glossary": "# Glossar",
    "The terms.": "Die Wörter.",
    "**Sum** · `x` · What addition gives.": "**Summe** · `x` · Was Addieren ergibt.",
    "**Word** · `y` · A string.": "**Wort** · `y` · Eine Kette.",
}


class Book:
    """A book in English and German in a folder of its own."""

    def __init__(self, root):
        self.root, self.english = root, root / "notebooks"
        self.german = root / "notebooks-de"

    def make(self):
        """Write a book whose translation is whole."""
        for folder in (self.english, self.german, self.root / "images" / "de"):
            folder.mkdir(parents=True)
        (self.root / "images" / "a.svg").touch()
        (self.german / "messages.toml").write_text(NOTES)
        (self.german / "words.toml").write_text(WORDS)
        for name, text in ENGLISH.items():
            self.write(name, text)
        for name in ("01_one.md", "02_two.md", "glossary.md"):
            (self.german / name).touch()
        self.update()
        for path in self.german.glob("*.md"):
            text = path.read_text()  # with its notes, which a translator can leave
            for ours, theirs in GERMAN.items():
                text = text.replace(ours, theirs)
            path.write_text(text)
        self.update()

    def write(self, name, text):
        """Write an English page; execute it, in a way."""
        path = self.english / name
        path.write_text(text)
        if name[0].isdigit():
            notebook = jupytext.read(path)
            for number, cell in enumerate(notebook.cells):
                cell.id = f"{digest(cell.source)}-{number}"
                if cell.cell_type == "code":
                    cell.outputs = [nbformat.v4.new_output("stream", text="7\n")]
            notebook.metadata = nbformat.from_dict({"executed": digest(text)})
            nbformat.write(notebook, pair(path))

    def edit(self, old, new, name="01_one.md", german=False):
        path = (self.german if german else self.english) / name
        text = path.read_text()
        assert text.count(old) == 1
        if german:
            path.write_text(text.replace(old, new))
        else:
            self.write(name, text.replace(old, new))

    def language(self, *opened):
        return Language(self.german, self.root, opened)

    def update(self, *opened):
        """Write the translation; return what there is to do, in short."""
        language = self.language(*opened)
        update(language)
        said = [*language.left_out(), *language.news()]
        return [line.partition(": ")[2][:5] for line in said if line[0] != " "]

    def text(self, name="01_one.md"):
        return (self.german / name).read_text()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("book")
    Book(root).make()
    return root


@pytest.fixture
def book(whole, tmp_path):
    """Copy that book, to be edited."""
    return Book(shutil.copytree(whole, tmp_path / "book"))


def test_a_whole_translation_has_nothing_to_do(book):
    assert book.update() == []
    assert "FEHLT" not in "".join(p.read_text() for p in book.german.glob("*.md"))


def test_writing_twice_changes_nothing(book):
    book.edit("Hello", "Hi")
    book.edit("The end", "Something new.\n\n```python\nx + 2\n```\n\nThe end")
    book.edit("A string", "A text", "glossary.md")
    for _ in range(2):
        assert book.update() == ["stale", "not t", "stale"]
        files = {path: path.read_bytes() for path in book.german.iterdir()}
    book.update()
    assert files == {path: path.read_bytes() for path in book.german.iterdir()}


def test_code_ids_and_outputs_are_those_of_the_english(book):
    ours, theirs = (
        nbformat.read(folder / "01_one.ipynb", 4)
        for folder in (book.german, book.english)
    )
    assert [c.id for c in ours.cells] == [c.id for c in theirs.cells]
    assert (
        "executed" in theirs.metadata
    )  # a digest, which says nothing of a translation
    assert ours.metadata == {}
    for one, other in zip(ours.cells, theirs.cells, strict=True):
        assert (one == other) == (one.cell_type == "code")


def test_links_lead_to_the_translation_where_there_is_one(book):
    text = book.text()
    assert "(02_two.ipynb#2.1-Ein-Wort)" in text
    assert "(../notebooks/03_three.ipynb#3.1-End)" in text
    assert "(#1.1-Summen)" in text
    assert "(#Mehr-(2.1))" in book.text("02_two.md")
    assert "(glossary.md)" in text and "(../images/de/a.svg)" in text
    for path in book.german.glob("*.md"):
        assert dead(path) == []


def test_links_follow_a_heading_and_a_chapter_that_is_translated_later(book):
    book.edit("2.1 Ein Wort", "2.1 Das Wort", "02_two.md", german=True)
    (book.german / "03_three.md").touch()
    assert book.update() == ["not t"]
    assert "(02_two.ipynb#2.1-Das-Wort)" in book.text()
    assert "(03_three.ipynb#3.1-End)" in book.text()
    assert "(02_two.ipynb#2.1-Das-Wort)" in book.text("glossary.md")


def test_an_edited_sentence_makes_one_cell_stale_until_its_mark_is_renewed(book):
    before = book.text()
    book.edit("A sum", "The sum")
    assert book.update() == ["stale"]
    text = book.text()
    assert text.count("VERALTET") == 1 and "Die Summe $a + b$" in text
    book.edit("The sum", "Any sum")  # once more, before a translator came
    assert book.update() == ["stale"]
    old, new = re.search(r"<!-- en: (\S+), now (\S+) -->", book.text()).groups()
    assert f"en: {old} -->" in before
    book.edit(f"{old}, now {new}", new, german=True)
    assert book.update() == []
    assert "VERALTET" not in book.text()


def test_a_translation_that_still_holds_is_said_to(book):
    book.edit("A sum", "The sum")
    book.edit("A string", "A text", "glossary.md")
    assert book.update() == ["stale", "stale"]
    update(Language(book.german, book.root, same=[book.german / "01_one.md"]))
    assert book.update() == ["stale"]
    assert "VERALTET" not in book.text() and "VERALTET" in book.text("glossary.md")
    for old in ("Hello", "The sum", "The end"):  # so much that it counts as rewritten
        book.edit(old, "Other words, and " + old)
    assert book.update() == ["its E", "stale"]
    update(Language(book.german, book.root, same=[book.german / "01_one.md"]))
    assert book.update() == ["stale"] and "VON FRÜHER" not in book.text()


def test_a_page_whose_english_was_rewritten_is_as_it_was_and_says_so(book):
    before, path = book.text(), book.german / "01_one.md"
    book.edit("x = 1", "x = 2")
    for old in ("Hello", "A sum", "The end"):
        book.edit(old, "Other words, and " + old)
    for _ in range(2):
        assert book.update() == ["its E"]
    note = "\n\n> VON FRÜHER <!-- whole -->\n"
    assert book.text() == before.replace("# 1 · Eins\n", "# 1 · Eins" + note, 1)
    assert note in nbformat.read(pair(path), 4).cells[0].source
    assert book.update(path) == ["stale"] * 3  # opened, to be translated
    assert "x = 2" in book.text() and note not in book.text()
    assert book.update() == ["its E"]
    for mark in re.findall(r"\w+, now (?=\w)", book.text()):
        book.edit(mark, "", german=True)
    assert book.update() == [] and "VON FRÜHER" not in book.text()


def test_a_stale_cell_shows_what_changed_in_the_english(book):
    def git(*command):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *who, *command], cwd=book.root, check=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "as translated")
    book.edit("A sum $a + b$ of two numbers", "The sum $a + b$ of two or more numbers")
    git("commit", "-qam", "edited")
    book.update()
    [said] = book.language().news()
    shown = "\n    ## 1.1 Sums [-A-] {+The+} sum $a + b$ of two {+or more+} numbers, in"
    assert shown in said


def test_the_check_sees_what_an_update_would_write(book):
    assert not [*faults(book.language())]
    book.edit("A sum", "The sum")
    found = [*faults(book.language())]
    assert [line.partition(": ")[0] for line in found] == [
        "notebooks-de/01_one.md",
        "notebooks-de/01_one.ipynb",
    ]
    book.update()
    assert not [*faults(book.language())]


def test_a_sentence_that_is_as_before_is_not_stale(book):
    before = book.text()
    for words in (("A sum", "The sum"), ("The sum", "A sum")):
        book.edit(*words)
        book.update()
    assert book.text() == before


def test_an_inserted_cell_shows_the_english_until_it_is_translated(book):
    book.edit("The end", "Something new.\n\n```python\nx + 2\n```\n\nThe end")
    assert book.update() == ["not t"]
    assert "> FEHLT NOCH <!-- note -->\n\nSomething new." in book.text()
    book.edit("Something new", "Something old")  # nothing is lost: nothing was there
    assert book.update() == ["not t"]
    assert "Something new" not in book.text()
    book.edit("Something old.", "Etwas Altes.", german=True)  # the note may stay
    assert book.update() == []
    assert "FEHLT" not in book.text() and "untranslated" not in book.text()


def test_moved_cells_keep_their_text(book):
    cut = "![A picture](../images/a.svg)\n\n```python\nx + 1\n```\n\n"
    book.write("01_one.md", ONE.replace(cut, "") + "\n\n" + cut)
    assert book.update() == []
    assert "Ende" in book.text().partition("![Ein Bild]")[0]


def test_a_cell_changed_beside_a_new_one_is_found_by_its_formula(book):
    new = "\nNew.\n\n```python\nx = 7\n```\n\n## 1.1 Sums\n\nThe sum"
    book.edit("```python\nx = 1\n```\n\n## 1.1 Sums\n\nA sum", new)
    assert book.update() == ["not t", "stale"]
    assert "VERALTET <!-- note -->\n\nDie Summe" in book.text()


@pytest.mark.parametrize(
    "old, new, text",
    [
        ("The end of [1.1](#1.1-Sums).\n", "", "Das Ende von [1.1](#1.1-Summen)."),
        ("numbers, in [the glossary](glossary.md).\n\n\n![A picture](../images/a.svg)",
         "numbers, joined.", "![Ein Bild](../images/de/a.svg)"),
    ],
)  # fmt: skip
def test_a_text_whose_english_is_gone_is_left_out_and_listed(book, old, new, text):
    book.edit(old, new)
    page = book.german / "01_one.md"  # opened, however much of it has changed
    said = [*book.language(page).left_out()]
    assert (
        f"notebooks-de/01_one.md: no English cell has this text; left out:\n{text}"
        in said
    )
    assert "no En" in book.update(page) and text not in book.text()
    assert "no En" not in book.update(page)


@pytest.mark.parametrize("new", ["", "{0}{0}", "{0}\nUnd?"])
def test_a_cell_ends_in_one_mark(book, new):
    mark = re.search("<!-- en: .*? -->", book.text())[0]
    book.edit(mark, new.format(mark), german=True)
    with pytest.raises(Refused, match=r"notebooks-de/01_one\.md, cell \d.*: end this"):
        book.update()


def test_an_emptied_cell_is_missing(book):
    book.edit("Das Ende von [1.1](#1.1-Summen).", "", german=True)
    assert book.update() == ["not t"]


@pytest.mark.parametrize(
    "old, new, kind",
    [
        ("$a + b$", "$a - b$", "formulas"),
        ("`world`", "`Welt`", "code"),
        ("(../images/de/a.svg)", "(../images/b.svg)", "links"),
        ("## 1.1 Summen", "### 1.1 Summen", "headings"),
        ("[Glossar](glossary.md)", "Glossar", "links"),
    ],
)
def test_what_must_not_differ_is_reported(book, old, new, kind):
    book.edit(old, new, german=True)
    book.update()
    [fault] = book.language().news()
    assert re.match(rf"notebooks-de/01_one\.md, cell \d .*: {kind}", fault)


def test_edited_code_is_brought_back(book):
    before = book.text()
    book.edit("x = 1", "x = 2", german=True)
    assert book.update() == [] and book.text() == before


def test_an_entry_of_a_page_is_a_cell(book):
    book.edit("A string", "A text", "glossary.md")
    assert book.update() == ["stale"]
    assert "Eine Kette.\n  [2.1]" in book.text("glossary.md")
    assert book.text("glossary.md").count("\n  > VERALTET <!-- note -->") == 1


def test_what_a_table_lacks_is_listed(book):
    book.edit("x = 1", "x = 1  # a new comment")
    assert book.update() == ["lacks"]


# The Chinese edition

CHINESE = [path for folder in folders() for path in folder.rglob("*.md")]
HAN = "\u4e00-\u9fff"
SLIPS = {
    "a line break inside a paragraph": rf"[{HAN}，。；：、）”]\n[{HAN}（“*`$A-Za-z]",
    "half-width punctuation": rf"[{HAN}] ?[,;:?!](?=[\s{HAN}])",
    "no blank beside Latin letters": rf"[{HAN}][A-Za-z`$]|[A-Za-z`$][{HAN}]",
}


@pytest.mark.parametrize("path", CHINESE, ids=lambda path: path.name)
def test_chinese_is_set_as_chinese(path):
    """Find slips of the typesetting, slanted characters, and links that are dead."""
    assert dead(path) == []
    assert not re.search(r"!\[\s*\]\(", path.read_text(encoding="utf-8"))
    for number, cell in enumerate(cells(path), 1):
        if cell.cell_type != "markdown" or not re.search(f"[{HAN}]", cell.source):
            continue
        listed = re.sub(r"(?ms)^```.*?^```|<!--.*?-->", "", cell.source)
        text = bare(listed)[0]
        for slip, pattern in SLIPS.items():
            beside = slip == "no blank beside Latin letters"  # or formulas, or code
            found = re.search(pattern, listed if beside else text)
            assert not found, f"cell {number}: {slip}: {found and found[0]}"
        slanted = re.findall(r"\*([^*\n]+)\*", text.replace("**", ""))
        assert not [x for x in slanted if re.search(f"[{HAN}]", x)], number


# The exercises in Chinese

STATED = re.compile(r"### 练习 (\d\.\d) · (.+)\n+\*\*(.+?) · (\d+) 分钟\*\*")
LISTED = re.compile(r"^\| \[(\d\.\d) · (.+?)\]\(#", re.M)
ROW = re.compile(r"^\| (\d\.\d) · (.+?) \| (.+?) \| (\d+) \|", re.M)


def test_exercises_have_one_name_in_chinese():
    """Compare the chapters, their lists of exercises, and the page for teachers."""
    [folder] = folders()
    teaching = ROW.findall((folder / "TEACHING.md").read_text(encoding="utf-8"))
    for path in folder.glob("0*.md"):
        text = path.read_text(encoding="utf-8")
        listed = dict(LISTED.findall(text))
        for each in STATED.findall(text):
            assert each in teaching
            assert listed[each[0]] == each[1]
