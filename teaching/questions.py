"""Write the multiple-choice questions for Moodle, for Canvas, and as an exam.

    python teaching/questions.py [--seed WORD] [--into build/questions]

Into the folder go `questions.gift` (Moodle), `questions.zip` (QTI 1.2, which Canvas and
others import), and an exam of an hour, `exam.md`, drawn from the seed, with `key.md`.
"""

import argparse
import html
import random
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as xml

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "questions.md"
EXAM = {"1": 9, "2": 7, "3": 4, "4": 5, "5": 2, "6": 3}  # two minutes a question


@dataclass
class Option:
    right: bool
    text: str
    why: str


@dataclass
class Question:
    section: str
    title: str
    text: str
    options: list[Option]


def questions(source: str) -> list[Question]:
    """Return the questions of a text like questions.md.

    Raises ValueError, with the question's title, unless exactly one option is right
    and each has its reason.
    """
    bank = []
    for part in re.split(r"(?m)^## ", source)[1:]:
        head, _, body = part.partition("\n")
        section, _, title = head.partition(" ")
        text, *listed = re.split(r"(?m)^- (?=\[[x ]\] )", body)
        options = []
        for option in listed:
            first, _, why = option.partition("\n")
            words = first[4:].strip(), " ".join(why.split())
            options.append(Option(first.startswith("[x]"), *words))
        asked = " ".join(text.split())
        if sum(o.right for o in options) != 1 or not all(o.why for o in options):
            raise ValueError(f"question {head!r}: one right option, a reason for each")
        bank.append(Question(section, title, asked, options))
    return sorted(bank, key=lambda question: [*map(int, question.section.split("."))])


def shuffled(question: Question) -> list[Option]:
    """Return the options in an order that says nothing, and is always the same."""
    return random.Random(question.title).sample(question.options, len(question.options))


def gift(bank: list[Question]) -> str:
    """Return the questions in Moodle's format."""

    def safe(text: str) -> str:
        return re.sub(r"([~=#{}:\\])", r"\\\1", text)

    parts = []
    for question in bank:
        options = "".join(
            f"  {'=' if o.right else '~'}{safe(o.text)}#{safe(o.why)}\n"
            for o in shuffled(question)
        )
        title, asked = safe(f"{question.section} {question.title}"), safe(question.text)
        parts.append(f"::{title}::[markdown]{asked} {{\n{options}}}\n")
    return "\n".join(parts)


def qti(bank: list[Question]) -> str:
    """Return the questions as a QTI 1.2 assessment."""
    root = xml.Element("questestinterop")
    root.set("xmlns", "http://www.imsglobal.org/xsd/ims_qtiasiv1p2")
    name = "The Annotated Transformer"
    assessment = xml.SubElement(root, "assessment", ident="questions", title=name)
    section = xml.SubElement(assessment, "section", ident="all")

    def material(parent: xml.Element, text: str) -> None:
        held = xml.SubElement(parent, "material")
        xml.SubElement(held, "mattext", texttype="text/plain").text = text

    for n, question in enumerate(bank, 1):
        title = f"{question.section} {question.title}"
        item = xml.SubElement(section, "item", ident=f"q{n}", title=title)
        data = xml.SubElement(item, "itemmetadata")
        fields = xml.SubElement(data, "qtimetadata")
        field = xml.SubElement(fields, "qtimetadatafield")
        xml.SubElement(field, "fieldlabel").text = "question_type"
        xml.SubElement(field, "fieldentry").text = "multiple_choice_question"
        shown = xml.SubElement(item, "presentation")
        material(shown, question.text)
        one = xml.SubElement(shown, "response_lid", ident="answer")
        one.set("rcardinality", "Single")
        choices = xml.SubElement(one, "render_choice", shuffle="Yes")
        judged = xml.SubElement(item, "resprocessing")
        outcomes = xml.SubElement(judged, "outcomes")
        xml.SubElement(
            outcomes, "decvar", varname="SCORE", vartype="Decimal", minvalue="0",
            maxvalue="100",
        )  # fmt: skip
        for k, option in enumerate(question.options):
            ident = f"q{n}o{k}"
            label = xml.SubElement(choices, "response_label", ident=ident)
            material(label, option.text)
            case = xml.SubElement(judged, "respcondition")
            case.set("continue", "Yes")
            test = xml.SubElement(case, "conditionvar")
            xml.SubElement(test, "varequal", respident="answer").text = ident
            if option.right:
                points = xml.SubElement(case, "setvar", action="Set", varname="SCORE")
                points.text = "100"
            told = xml.SubElement(case, "displayfeedback", feedbacktype="Response")
            told.set("linkrefid", f"{ident}_fb")
        for k, option in enumerate(question.options):
            said = xml.SubElement(item, "itemfeedback", ident=f"q{n}o{k}_fb")
            material(xml.SubElement(said, "flow_mat"), option.why)
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True)


MANIFEST = """\
<?xml version="1.0" encoding="UTF-8"?>
<manifest identifier="questions" xmlns="http://www.imsglobal.org/xsd/imscp_v1p1">
  <metadata><schema>IMS Content</schema><schemaversion>1.1.3</schemaversion></metadata>
  <organizations/>
  <resources>
    <resource identifier="all" type="imsqti_xmlv1p2" href="questions.xml">
      <file href="questions.xml"/>
    </resource>
  </resources>
</manifest>
"""


def exam(bank: list[Question], seed: str) -> tuple[str, str]:
    """Return an exam of an hour and its key, as Markdown."""
    draw = random.Random(seed)
    chosen = []
    for chapter, count in EXAM.items():
        own = [question for question in bank if question.section.startswith(chapter)]
        picked = set(draw.sample(range(len(own)), count))
        chosen += [question for n, question in enumerate(own) if n in picked]
    sheet = [
        "# The Transformer: exam",
        f"Name: ____________________ · {len(chosen)} questions, 60 minutes. Exactly "
        "one option is right. A right answer is worth one point; nothing is taken off.",
    ]
    key = ["# The Transformer: key"]
    for n, question in enumerate(chosen, 1):
        options = draw.sample(question.options, len(question.options))
        lines = [f"{'abcd'[k]}) {o.text}" for k, o in enumerate(options)]
        sheet.append(
            "\n".join([f"**{n}.** {question.text}\n", *(f"- {x}" for x in lines)])
        )
        [k] = [k for k, option in enumerate(options) if option.right]
        key.append(f"{n}. **{'abcd'[k]}** ({question.section}): {options[k].why}")
    return "\n\n".join(sheet) + "\n", "\n\n".join(key) + "\n"


def page(bank: list[Question], links: dict[str, str]) -> str:
    """Return the questions as a page on which each option opens its reason.

    ``links`` leads from a section's number to its place.
    """
    parts = [
        "# Test yourself",
        "Pick an option to see what is right or wrong with it. The number leads to the "
        "section.",
    ]
    chapter = ""
    for question in bank:
        if question.section[0] != chapter:
            chapter = question.section[0]
            parts.append(f"## Chapter {chapter}")
        head = f"### [{question.section}]({links[question.section]}) {question.title}"
        options = "".join(
            f'<details class="{"right" if o.right else "wrong"}"><summary>'
            f"{html.escape(o.text)}</summary><p><b>{'Yes.' if o.right else 'No.'}</b> "
            f"{html.escape(o.why)}</p></details>"
            for o in shuffled(question)
        )
        parts += [head, question.text, f'<div class="options">{options}</div>']
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="1")
    into = HERE.parent / "build" / "questions"
    parser.add_argument("--into", type=Path, default=into)
    given = parser.parse_args()
    bank = questions(SOURCE.read_text(encoding="utf-8"))
    given.into.mkdir(parents=True, exist_ok=True)
    (given.into / "questions.gift").write_text(gift(bank), encoding="utf-8")
    with zipfile.ZipFile(given.into / "questions.zip", "w") as packed:
        packed.writestr("imsmanifest.xml", MANIFEST)
        packed.writestr("questions.xml", qti(bank))
    for name, text in zip(("exam.md", "key.md"), exam(bank, given.seed)):
        (given.into / name).write_text(text, encoding="utf-8")
    print(f"{given.into}: {len(bank)} questions, an exam of {sum(EXAM.values())}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
