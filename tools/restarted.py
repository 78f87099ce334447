"""What a kernel of `make lab` runs first: it says where missing names come from."""


def say_what_to_run(shell, kind, error, trace, tb_offset=None):
    """Show a NameError; where no cell of the chapter has run, what to do instead."""
    lines = shell.InteractiveTB.structured_traceback(kind, error, trace, tb_offset)
    if "check" not in shell.user_ns:
        lines = [
            f"{error}: run the cells above first.\n"
            "In JupyterLab's menu: Run > Run All Above Selected Cell."
        ]
    shell._showtraceback(kind, error, lines)


get_ipython().set_custom_exc((NameError,), say_what_to_run)  # noqa: F821
del say_what_to_run
