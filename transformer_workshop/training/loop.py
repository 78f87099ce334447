"""How does a run train, alone or as one of several processes?"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from annotated_transformer import (
    PAD,
    EncoderDecoder,
    Example,
    SimpleLossCompute,
    Text,
    epoch_rng,
    lengths_of,
    mean_loss,
    rate,
    shuffled_groups,
    token_budget_batches,
)
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.files import log, write_json
from transformer_workshop.base.machine import gpu_report
from transformer_workshop.models.evaluation import report_worth
from transformer_workshop.models.muon import build_optimizers
from transformer_workshop.models.speed import (
    LeanLabelSmoothing,
    autocast,
    choose_precision,
    keep_freed_memory,
    optimize_for_cpu,
)
from transformer_workshop.models.translator import Translator
from transformer_workshop.text.encoding import pack_text
from transformer_workshop.text.fingerprints import fingerprint_of_ids
from transformer_workshop.training.checkpoints import Run
from transformer_workshop.training.epochs import TrainState, run_epoch
from transformer_workshop.training.inputs import RunInputs, first_model, read_inputs
from transformer_workshop.training.interruptions import explain_errors
from transformer_workshop.training.meter import Meter
from transformer_workshop.training.processes import (
    SharedLoss,
    SharedState,
    check_gradients,
    distribute,
    is_launched,
    is_main_process,
    own_batches,
    process_group,
    run_in_processes,
)
from transformer_workshop.training.run_folder import (
    claim_folder,
    is_finished,
    open_run_folder,
    read_metrics,
    starts_so_far,
)


def build_losses(
    model: EncoderDecoder, config: TrainingConfig
) -> tuple[SimpleLossCompute, SimpleLossCompute]:
    """Return the training loss, and validation's: the negative log-likelihood."""
    generator = model.generator
    size = generator.proj.out_features
    smoothed = LeanLabelSmoothing(size, PAD, config.smoothing)
    plain = LeanLabelSmoothing(size, PAD)
    return SimpleLossCompute(generator, smoothed), SimpleLossCompute(generator, plain)


def stable_rate(step: int, peak: float, warmup: int, total: int, decay: float) -> float:
    """Return ``linear_rate``, but at its peak until the last ``decay`` of the run.

    From ``decay`` = 1 on, the two are the same.
    """
    falling = max(min(total + 1 - warmup, decay * total), 1)
    height = min(step / warmup, 1.0, (total + 1 - step) / falling)
    return peak * max(height, 0.0)


def schedule_of(config: TrainingConfig, total: int) -> Callable[[int], float]:
    """Return the learning rate's schedule for a run of ``total`` updates."""
    peak, warmup = config.base_lr, config.warmup
    if config.schedule == "linear":
        return lambda step: stable_rate(step, peak, warmup, total, config.decay)
    return lambda step: rate(step, config.d_model, peak, warmup)


def epochs_without_gain(losses: Sequence[float], patience: int) -> int:
    """Return the number of epochs since the lowest loss, or 0 if it is below patience.

    With a patience of 0, nothing is waited for.
    """
    waited = len(losses) - 1 - losses.index(min(losses)) if losses else 0
    return waited if 0 < patience <= waited else 0


def train_resumably(inputs: RunInputs, report: bool = False) -> None:
    """Train in an open folder, from where the run stopped, alone or as one of several.

    Writes metrics, checkpoints, and the model to config.run_dir. ``report``: say at the
    end what the model is worth.
    """
    torch.set_num_threads(inputs.config.threads)
    keep_freed_memory()
    with process_group(inputs.device) as process:
        _train(inputs, process, report)


def count_updates(
    examples: Sequence[Example], batch_tokens: int, epochs: int, accum_iter: int = 1
) -> int:
    """Count the optimizer's updates in a whole run."""
    groups = token_budget_batches(lengths_of(examples), batch_tokens)
    return epochs * math.ceil(len(groups) / accum_iter)


def _train(
    inputs: RunInputs, process: tuple[torch.device, int, int], report: bool
) -> None:
    """Train on this process's share of each batch."""
    config, text = inputs.config, inputs.text
    examples, valid_examples = inputs.train, inputs.valid
    device, rank, _ = process
    precision = choose_precision(config.precision, device)
    valid_groups = token_budget_batches(lengths_of(valid_examples), config.batch_tokens)
    model = inputs.model or first_model(config, text, inputs.starts)
    model.to(device)
    optimize_for_cpu(model)
    shared = distribute(model)
    torch.manual_seed(config.seed + rank)  # dropout differs between processes
    updates = count_updates(
        examples, config.batch_tokens, config.epochs, config.accum_iter
    )
    if rank == 0 and config.warmup > updates:
        log(
            f"warmup={config.warmup} is longer than the run of {updates} updates, so "
            "its rate never reaches the peak. Use a lower warmup or more epochs."
        )
    schedule = schedule_of(config, updates)
    optimizer, scheduler = build_optimizers(model, schedule, config.optimizer)
    train_loss, valid_loss = build_losses(model, config)

    run = Run(
        config, model, optimizer, scheduler, fingerprint_of_ids(examples), precision
    )
    state = run.state
    check_gradients(optimizer, state)
    run.resume()
    if rank == 0:
        write_json(run.folder / "vocabulary.json", pack_text(text))
    tokens = sum(len(tgt) - 1 for _, tgt in examples)
    meter = Meter(run, tokens)

    losses = [record["valid_nll"] for record in read_metrics(run.folder)]

    def after_update(_: TrainState) -> None:
        run.save_if_due()
        meter.update()

    with meter.bar:
        for epoch in range(state.epoch, config.epochs):
            if waited := epochs_without_gain(losses, config.patience):
                meter.say(f"Stopped: no gain on validation in {waited} epochs.")
                break
            rng = epoch_rng(config.seed, epoch)
            groups = shuffled_groups(lengths_of(examples), config.batch_tokens, rng)
            with explain_errors(run, examples, groups):
                run.started = time.perf_counter() - state.seconds
                run.save_if_due()
                if left := groups[state.batches :]:  # none: stopped at the epoch's end
                    with autocast(precision, device):
                        run_epoch(
                            own_batches(examples, left, process),
                            shared,
                            SharedLoss(train_loss, state),
                            optimizer,
                            scheduler,
                            accum_iter=config.accum_iter,
                            train_state=state,
                            max_norm=config.max_norm,
                            callback=after_update,
                        )
                seconds = time.perf_counter() - run.started
                valid = SharedState(accum_step=state.accum_step)
                own = own_batches(valid_examples, valid_groups, process)
                loss = SharedLoss(valid_loss, valid)
                run_epoch(own, model, loss, None, None, "eval", train_state=valid)
                record = {
                    "epoch": epoch + 1,
                    "step": state.accum_step,
                    "train_criterion": state.criterion,  # smoothed, as minimized
                    "valid_nll": valid.criterion,  # nats per target token
                    "perplexity": _perplexity(valid.criterion),
                    "tokens_per_second": state.epoch_tokens / seconds,
                    "seconds": seconds,
                    "precision": precision,
                    "lr": float(scheduler.get_last_lr()[0]),
                }
                run.save(record)
                losses.append(valid.criterion)
            if report:
                meter.say_epoch(record)
            if device.type == "cuda":
                meter.say("; ".join(gpu_report()))
    run.finish()
    if report and rank == 0:
        alone = own_batches(valid_examples, valid_groups, (device, 0, 1))
        nats = mean_loss(alone, model, valid_loss)
        translator = Translator(model, text, config)
        records = read_metrics(run.folder)
        report_worth(translator, examples, valid_examples, _perplexity(nats), records)


def _perplexity(nats: float) -> float:
    return math.exp(min(nats, 700))  # more overflows


def launch_training(
    inputs: RunInputs, restart: bool = False, report: bool = False
) -> None:
    """Train a run whose inputs are read, in its claimed folder, from where it stopped.

    Trains in this process or, with ``config.distributed``, in new ones on this machine:
    one per GPU, or two without GPUs. They see the batches that a single process would,
    so the model is the same, apart from rounding and from dropout. Under torchrun this
    process does its share. restart: delete the folder's run first; report: say at the
    end what the model is worth. Raises DataError, and FloatingPointError.
    """
    if is_main_process():
        open_run_folder(inputs.config, inputs.starts, restart)
    if not inputs.config.distributed or is_launched():
        train_resumably(inputs, report)
        return
    count = torch.cuda.device_count() if inputs.device.type == "cuda" else 2
    # the tensors of a model that is passed on would be shared
    run_in_processes(count, train_resumably, replace(inputs, model=None), report)


def train_run(
    config: TrainingConfig, text: Text, restart: bool = False, report: bool = False
) -> None:
    """Do what the command `train` does, with a text that is known already.

    Does nothing if the run is finished, unless ``restart`` is set. For the rest see
    ``launch_training``.
    """
    with claim_folder(Path(config.run_dir)):
        starts = starts_so_far(config, restart)
        if restart or not is_finished(config):
            launch_training(read_inputs(config, starts, text), restart, report)
