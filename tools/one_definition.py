"""Make a notebook use the module's definitions instead of a second copy of them.

The kernels of `make notebooks` and of nbval run this file first: it is their
PYTHONSTARTUP. After each definition that the module holds, it adds
`from annotated_transformer import NAME` to the cell. The chapter then exercises the
code that it exports: `isinstance` holds, and a fault in the module is a fault here. It
leaves cells tagged `rung` alone: they define an earlier version of such a name.
"""


def _use_the_modules_definitions() -> None:
    """Install the change, keeping the names in here out of the notebook."""
    import ast
    import re
    from pathlib import Path

    from IPython import get_ipython
    from IPython.core.error import InputRejected

    root = Path(__file__).resolve().parent.parent
    module = root / "annotated_transformer.py"
    rung = re.compile('^```python tags=\\["rung"\\]\n(.*?)^```', re.M | re.S)
    rungs = {
        ast.dump(node)
        for chapter in root.glob("notebooks/0*.md")
        for source in rung.findall(chapter.read_text(encoding="utf-8"))
        for node in ast.parse(source).body
    }

    def names(node: ast.stmt) -> list[str]:
        """Return what a definition or a constant binds."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return [node.name]
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            return []
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = [part for target in targets for part in ast.walk(target)]
        found = [part.id for part in parts if isinstance(part, ast.Name)]
        return [name for name in found if not name.islower()]  # no variables

    class OneDefinition(ast.NodeTransformer):
        def __init__(self) -> None:
            statements = ast.parse(module.read_text(encoding="utf-8")).body
            self.held = {name: node for node in statements for name in names(node)}

        def visit_Module(self, cell: ast.Module) -> ast.Module:
            body = []
            for node in cell.body:
                body.append(node)
                if ast.dump(node) in rungs:
                    continue
                for name in [name for name in names(node) if name in self.held]:
                    if ast.dump(node) != ast.dump(self.held[name]):
                        raise InputRejected(
                            f"`{name}` is defined differently in {module.name}: run "
                            "`make notebooks`, or use another name"
                        )
                    body.append(ast.ImportFrom(module.stem, [ast.alias(name)], 0))
            return ast.Module(body, cell.type_ignores)

    get_ipython().ast_transformers.append(OneDefinition())


_use_the_modules_definitions()
del _use_the_modules_definitions
