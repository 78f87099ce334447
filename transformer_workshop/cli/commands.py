"""How does a command end: what does it print, and with which status?"""

from __future__ import annotations

import re
from argparse import Namespace

import torch

from annotated_transformer import DataError
from transformer_workshop.base.files import log
from transformer_workshop.cli.evaluation_commands import (
    calibrate_command,
    compare_command,
    evaluate_command,
)
from transformer_workshop.cli.training_commands import (
    as_flags,
    prepare_command,
    train_command,
)
from transformer_workshop.cli.translation_commands import (
    attend_command,
    export_command,
    translate_command,
)
from transformer_workshop.training.interruptions import is_out_of_memory

_COMMANDS = {
    "train": train_command,
    "prepare": prepare_command,
    "translate": translate_command,
    "evaluate": evaluate_command,
    "compare": compare_command,
    "calibrate": calibrate_command,
    "attend": attend_command,
    "export": export_command,
}


def run(arguments: Namespace) -> int:
    """Run the command that was parsed; return the exit status, 2 after an error."""
    try:
        return _COMMANDS[arguments.command](arguments)
    except BrokenPipeError:
        raise
    except torch.multiprocessing.ProcessRaisedException as error:
        last = str(error).strip().splitlines()[-1]  # of the process's traceback
        line = re.sub(r"^[\w.]+Error: ", "", last)
    except torch.multiprocessing.ProcessExitedException as error:
        line = f"{error}. Run the same command again to resume."
    except (DataError, ImportError, OSError, ValueError, FloatingPointError) as error:
        line = str(error).replace("\n", " ")  # file names can contain anything
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        line = "out of memory. Use a smaller model, batch or --beam-size."
    log(f"error: {as_flags(line)}")
    return 2
