"""Make the page of the names worth knowing: api.md, with signatures and docstrings."""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

WIDTH = 88


def signature(name: str, item: Any) -> str:
    """Return how a function or class is called, over several lines if it is long."""
    found = inspect.signature(item)
    parts = [re.sub(r": '(.+?)'( = |$)", r": \1\2", str(p)) for p in
             found.parameters.values()]  # fmt: skip
    kinds = [p.kind for p in found.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        parts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returns = str(found).rpartition(" -> ")[2].strip("'")
    returns = (
        f" -> {returns}" if " -> " in str(found) and inspect.isroutine(item) else ""
    )
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"


def methods(item: type) -> str:
    """Return a list of a class's own methods, with what each does."""
    own = {n: getattr(item, n) for n in vars(item) if not n.startswith("_")}
    return "\n".join(
        f"- `{name}`: {inspect.cleandoc(method.__doc__).splitlines()[0]}"
        for name, method in own.items()
        if inspect.isroutine(method) and method.__doc__
    )


def page() -> str:
    """Return api.md with the signature and the docstring of each name below it."""
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    module: Any = None

    def described(heading: re.Match) -> str:
        nonlocal module
        if heading["module"]:
            module = importlib.import_module(heading["module"])
            return heading[0]
        name = heading["name"]
        item = getattr(module, name)
        about = inspect.cleandoc(item.__doc__).replace("<", r"\<")
        parts = [f"### {name}", f"```python\n{signature(name, item)}\n```", about]
        if inspect.isclass(item) and (listed := methods(item)):
            parts.append(listed)
        return "\n\n".join(parts)

    pattern = r"(?m)^## (?P<module>[\w.]+).*$|^### (?P<name>\w+)$"
    return re.sub(pattern, described, text)
