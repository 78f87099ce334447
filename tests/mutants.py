"""Plant known faults in a copy of the module, one at a time: a test must fail.

python tests/mutants.py            all faults, as a table
python tests/mutants.py beam mask  those whose line contains one of the words

The errors that older annotated versions are known for come first, then faults of our
own invention. Exit status 1 if a fault survives, 2 if one can't be planted or tested.
"""

import importlib.util
import io
import multiprocessing
import os
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "annotated_transformer.py"
COPIED = ("tests", "tools", "results", "conftest.py", "pyproject.toml")
LINKED = ("data", "models", "notebooks")  # large, and only read
LINE = "{:60}  {:52}  {}"
OWN = "own"

# What is wrong in older annotated versions, by the function that has it. A reason says
# why our code can't have the error; all the others are planted below.
KNOWN = {
    "run_model_example: translates with dropout on": "",
    "attention: softmax over heads": "",
    "attention: F is not imported": "",
    "train_worker: main process unknown without several": "",
    "load_trained_model: unpickles whatever a file holds": "",
    "train_worker: never saves what loading needs": "",
    "train_worker: batches and model on different devices": "",
    "train_worker: without the argument that spawn passes": "",
    "train_worker: no validation": "",
    "is_interactive_notebook: compares two strings": "",
    "run_epoch: updates after batch 1, leaves the last ones over": "",
    "run_epoch: gradient is a sum of means": "",
    "run_epoch: gradient is a mean of means": "",
    "run_epoch: schedule steps with every batch": "",
    "rate: first two updates share a rate": "",
    "collate_batch: cuts </s>": "",
    "average: does not average": "",
    "make_model: sharing does not share, or shares anything": "",
    "make_model: attention ignores the dropout": "",
    "greedy_decode: goes on after </s>, one row only": "",
    "check_outputs: not the first examples": "",
    "viz_decoder_self: source words on a target matrix": "",
    "viz_decoder_src: axes swapped": "",
    "viz_*: labels are not what the decoder read": "",
    "MultiHeadedAttention.attn: after dropout, with its graph": "",
    "LabelSmoothing: logarithm of 0": "",
    "copy task: the start symbol is padding": "",
    "build_vocabulary: reads more than the training pairs": "",
    "printed vocabulary sizes: of other data": (
        "outputs are not part of the module; tools/check.py and nbval check them"
    ),
    "load_vocab: pickles": "",
    "import: draws a chart": "",
    "train_worker: needs a GPU": "",
    "train_worker: process group never taken down": "",
    "train_worker: validation loss of one process only": "",
    "train_worker: validation sentences counted twice": "",
}


@dataclass(frozen=True)
class Mutant:
    """A fault: ``old``, which occurs once in the module, becomes ``new``."""

    row: str  # of KNOWN, or OWN
    fault: str
    old: str
    new: str
    tests: str  # file::test of one or more that should fail


MUTANTS = [
    # --- known errors ---------------------------------------------------------
    Mutant(
        "run_model_example: translates with dropout on",
        "greedy decoding in the model's own mode",
        "    with in_mode(model, training=False):\n        memory =",
        "    with in_mode(model, training=model.training):\n        memory =",
        "test_training.py::test_greedy_decoding_stops_row_by_row_and_equals_one_by_one",
    ),
    Mutant(
        "run_model_example: translates with dropout on",
        "beam search in the model's own mode",
        "in_mode(model, training=False), torch.inference_mode():",
        "in_mode(model, training=model.training), torch.no_grad():",
        "test_additional_components.py::"
        "test_the_search_is_deterministic_and_restores_the_mode",
    ),
    Mutant(
        "attention: softmax over heads",
        "softmax(dim=1)",
        "weights = scores.softmax(dim=-1)\n    if mask",
        "weights = scores.softmax(dim=1)\n    if mask",
        "test_architecture.py::test_multi_head_attention_is_torchs",
    ),
    Mutant(
        "attention: F is not imported",
        "F is not imported",
        "import torch.nn.functional as F\n",
        "",
        "test_architecture.py::test_layer_norm_is_torchs",
    ),
    Mutant(
        "train_worker: main process unknown without several",
        "the rank is asked for in any case",
        "    if dist.is_available() and dist.is_initialized():\n"
        "        return dist.get_rank() == 0",
        "    if dist.is_available():\n        return dist.get_rank() == 0",
        "test_resume.py::test_the_best_by_validation_is_kept",
    ),
    Mutant(
        "load_trained_model: unpickles whatever a file holds",
        "files of torch.save are welcome",
        "        tensors = safetensors.load(data)\n",
        '        if data.startswith(b"PK"):\n'
        '            with open(path, "rb") as file:\n'
        "                return torch.load(file, weights_only=False), {}\n"
        "        tensors = safetensors.load(data)\n",
        "test_files_and_runs.py::test_nothing_is_unpickled",
    ),
    Mutant(
        "train_worker: never saves what loading needs",
        "the vocabulary is not saved",
        "    run.save_text(text)\n",
        "",
        "test_files_and_runs.py::test_a_finished_run_is_a_translator",
    ),
    Mutant(
        "train_worker: without the argument that spawn passes",
        "no argument gpu",
        "    gpu: int, ngpus_per_node: int, vocab_src",
        "    ngpus_per_node: int, vocab_src",
        "test_files_and_runs.py::test_a_finished_run_is_a_translator",
    ),
    Mutant(
        "train_worker: batches and model on different devices",
        "batches stay on the processor",
        "yield Batch(padded(src).to(device), padded(tgt).to(device), PAD)",
        "yield Batch(padded(src), padded(tgt), PAD)",
        "test_distributed.py::test_batches_arrive_on_their_device",
    ),
    Mutant(
        "train_worker: batches and model on different devices",
        "the model stays on the processor",
        "model = build_model(config, text.vocab_src, text.vocab_tgt).to(device)",
        "model = build_model(config, text.vocab_src, text.vocab_tgt)",
        "test_distributed.py::test_the_model_is_trained_on_its_device",
    ),
    Mutant(
        "train_worker: no validation",
        "the training pairs' figures pass as validation",
        '_, valid = run_epoch(valid_batches, model, valid_loss, None, None, "eval")',
        "valid = state",
        "test_real_world.py::test_the_best_epoch_by_validation_is_kept",
    ),
    Mutant(
        "is_interactive_notebook: compares two strings",
        "two strings compared",
        'return shell is not None and hasattr(shell, "kernel")',
        'return "__name__" == "__main__"',
        "test_names_of_2022.py::test_a_kernel_is_known_by_its_shell",
    ),
    Mutant(
        "run_epoch: updates after batch 1, leaves the last ones over",
        "the first update has one batch",
        "    stream = iter(data_iter)\n",
        "    stream = iter(data_iter)\n    yield list(itertools.islice(stream, 1))\n",
        "test_training.py::test_accumulation_is_one_large_batch",
    ),
    Mutant(
        "run_epoch: updates after batch 1, leaves the last ones over",
        "no update for a last, shorter window",
        "    while window := list(itertools.islice(stream, size)):\n",
        "    while len(window := list(itertools.islice(stream, size))) == size:\n",
        "test_training.py::test_accumulation_is_one_large_batch",
    ),
    Mutant(
        "run_epoch: gradient is a sum of means",
        "each batch divided by its own tokens",
        "loss_compute(out, batch.tgt_y, norm)",
        "loss_compute(out, batch.tgt_y, batch.ntokens)",
        "test_training.py::test_accumulation_is_one_large_batch",
    ),
    Mutant(
        "run_epoch: gradient is a mean of means",
        "short batches weigh more",
        "loss_compute(out, batch.tgt_y, norm)",
        "loss_compute(out, batch.tgt_y, len(window) * batch.ntokens)",
        "test_training.py::test_accumulation_is_one_large_batch",
    ),
    Mutant(
        "run_epoch: schedule steps with every batch",
        "a step of the schedule for every batch of a window",
        "                scheduler.step()\n",
        "                for _ in window:\n                    scheduler.step()\n",
        "test_training.py::test_schedule_moves_with_the_optimizer",
    ),
    Mutant(
        "rate: first two updates share a rate",
        "schedule counted from 0",
        "return rate(step + 1,",
        "return rate(step,",
        "test_real_world.py::test_step_k_uses_the_rate_of_step_k",
    ),
    Mutant(
        "rate: first two updates share a rate",
        "linear schedule counted from 0",
        "step + 1, config.base_lr, config.warmup, total",
        "step, config.base_lr, config.warmup, total",
        "test_real_world.py::test_step_k_uses_the_rate_of_step_k",
    ),
    Mutant(
        "collate_batch: cuts </s>",
        "rows cut at their end",
        "[START, *body[:room], END] for body in side]",
        "[START, *body, END][:max_padding] for body in side]",
        "test_real_world.py::test_collate_keeps_the_end_of_a_sentence_it_shortens",
    ),
    Mutant(
        "average: does not average",
        "the sum is not divided",
        "(tensor / count).to(state[key].dtype)",
        "tensor.to(state[key].dtype)",
        "test_additional_components.py::test_the_mean_of_two_is_the_midpoint",
    ),
    Mutant(
        "average: does not average",
        "asks models for params()",
        "m.state_dict()) for i, m",
        "m.params()) for i, m",
        "test_additional_components.py::test_the_mean_of_two_is_the_midpoint",
    ),
    Mutant(
        "make_model: sharing does not share, or shares anything",
        "the table goes to an attribute that nobody reads",
        "model.generator.proj.weight = tgt.weight",
        "model.generator.lut = tgt",
        "test_architecture.py::test_tying_shares_one_table",
    ),
    Mutant(
        "make_model: sharing does not share, or shares anything",
        "vocabularies of two sizes share",
        "if src.num_embeddings != tgt.num_embeddings:",
        "if src.embedding_dim != tgt.embedding_dim:",
        "test_architecture.py::test_sizes_that_do_not_fit_are_refused",
    ),
    Mutant(
        "make_model: attention ignores the dropout",
        "attention keeps its default dropout",
        "attn = MultiHeadedAttention(h, d_model, dropout)",
        "attn = MultiHeadedAttention(h, d_model)",
        "test_architecture.py::test_dropout_argument_reaches_every_part",
    ),
    Mutant(
        "greedy_decode: goes on after </s>, one row only",
        "no row ever stops",
        "without an end symbol all rows go on\n"
        "            running = running & (word != end_symbol)\n",
        "without an end symbol all rows go on\n",
        "test_training.py::test_greedy_decoding_stops_row_by_row_and_equals_one_by_one",
    ),
    Mutant(
        "greedy_decode: goes on after </s>, one row only",
        "every row gets the word of the first",
        "word = model.generator(out[:, -1]).argmax(-1)\n",
        "word = model.generator(out[:, -1]).argmax(-1)[:1]\n",
        "test_training.py::test_greedy_decoding_stops_row_by_row_and_equals_one_by_one",
    ),
    Mutant(
        "check_outputs: not the first examples",
        "the first example again and again",
        "return itertools.islice(pairs, most)",
        "return itertools.repeat(next(pairs), most)",
        "test_names_of_2022.py::test_the_outputs_checked_are_those_of_the_first_pairs",
    ),
    Mutant(
        "check_outputs: not the first examples",
        "validation pairs shuffled",
        "DataLoader(held_out, batch_size, collate_fn=collate)",
        "DataLoader(held_out, batch_size, True, collate_fn=collate)",
        "test_real_world.py::test_loaders_shuffle_training_only",
    ),
    Mutant(
        "viz_decoder_self: source words on a target matrix",
        "the decoder's self-attention gets source words",
        "return _visualize_model(model, get_decoder_self, read, read)",
        "return _visualize_model(model, get_decoder_self, source, source)",
        "test_attention_visualization.py::"
        "test_the_three_old_views_show_the_first_test_sentence",
    ),
    Mutant(
        "viz_decoder_src: axes swapped",
        "cross-attention labelled the other way round",
        "return _visualize_model(model, get_decoder_src, read, source)",
        "return _visualize_model(model, get_decoder_src, source, read)",
        "test_attention_visualization.py::"
        "test_the_three_old_views_show_the_first_test_sentence",
    ),
    Mutant(
        "viz_*: labels are not what the decoder read",
        "the recorded output goes on after </s>",
        "ids = greedy_decode(model, src, mask, most, START, end_symbol=END, pad=PAD)",
        "ids = greedy_decode(model, src, mask, most, START, pad=PAD)",
        "test_attention_visualization.py::"
        "test_an_output_that_ends_is_cut_before_its_end",
    ),
    Mutant(
        "viz_*: labels are not what the decoder read",
        "each row is labelled with the word it wrote",
        "tokens(ids[0, :-1].tolist())",
        "tokens(ids[0, 1:].tolist())",
        "test_attention_visualization.py::test_labels_are_what_the_model_read",
    ),
    Mutant(
        "MultiHeadedAttention.attn: after dropout, with its graph",
        "weights keep their graph",
        "self.attn = None if weights is None else weights.detach()",
        "self.attn = weights",
        "test_architecture.py::test_kept_weights_are_detached_and_from_before_dropout",
    ),
    Mutant(
        "MultiHeadedAttention.attn: after dropout, with its graph",
        "weights after dropout",
        "return kept @ value, weights\n\n\ndef clones",
        "return kept @ value, kept\n\n\ndef clones",
        "test_architecture.py::test_kept_weights_are_detached_and_from_before_dropout",
    ),
    Mutant(
        "LabelSmoothing: logarithm of 0",
        "entropy takes log(0) where smoothing is 0",
        "for total, q in shares if q)",
        "for total, q in shares)",
        "test_training.py::test_the_lean_criterion_is_the_plain_one",
    ),
    Mutant(
        "copy task: the start symbol is padding",
        "strings begin with 0",
        "        data[:, 0] = 1\n",
        "        data[:, 0] = 0\n",
        "test_training.py::test_copy_data_starts_with_1_and_never_pads",
    ),
    Mutant(
        "build_vocabulary: reads more than the training pairs",
        "words of all splits",
        "        pairs = read_parallel(*files)\n",
        "        pairs = read_parallel(*files)\n"
        '        pairs += load_pairs(TrainingConfig(), "valid")\n',
        "test_real_world.py::test_default_vocabulary_is_that_of_the_captions",
    ),
    Mutant(
        "build_vocabulary: reads more than the training pairs",
        "train reads the validation pairs too",
        'text = prepare_text(config, load_pairs(config, "train"))',
        'pairs = load_pairs(config, "train") + load_pairs(config, "valid")\n'
        "        text = prepare_text(config, pairs)",
        "test_command_line.py::test_words_of_the_validation_pairs_are_not_learnt",
    ),
    Mutant(
        "load_vocab: pickles",
        "a run's vocabulary is pickled",
        "write_json(path, packed)",
        "torch.save(packed, path)",
        "test_files_and_runs.py::test_a_finished_run_is_a_translator",
    ),
    Mutant(
        "import: draws a chart",
        "importing sets up the charts",
        'if __name__ == "__main__":\n',
        'use_charts()\n\n\nif __name__ == "__main__":\n',
        "test_import.py::test_importing_loads_no_package_besides_torch",
    ),
    Mutant(
        "train_worker: needs a GPU",
        "a GPU is chosen in any case",
        "    device = choose_device(config.device)\n    with (",
        "    device = choose_device(config.device)\n"
        "    torch.cuda.set_device(gpu)\n    with (",
        "test_distributed.py::test_on_the_processor_no_gpu_is_chosen",
    ),
    Mutant(
        "train_worker: process group never taken down",
        "the group outlives the training",
        "        dist.destroy_process_group()\n",
        "        pass\n",
        "test_distributed.py::test_the_group_is_taken_down_when_a_process_fails",
    ),
    Mutant(
        "train_worker: validation loss of one process only",
        "sums are not gathered",
        "    state.criterion_sum, state.nll_sum = sums[:2]\n",
        "",
        "test_distributed.py::test_two_processes_take_the_steps_of_one[1-None]",
    ),
    Mutant(
        "train_worker: validation sentences counted twice",
        "a share's targets are the first process's",
        "yield Batch(batch.src[rank::world], tgt[rank::world], PAD)",
        "yield Batch(batch.src[rank::world], tgt[::world], PAD)",
        "test_distributed.py::test_the_shares_of_a_batch_are_the_batch",
    ),
    # --- our own: chapter 1 ---------------------------------------------------
    Mutant(
        OWN,
        "scores divided by d_k, not by its root",
        "/ math.sqrt(query.size(-1))  #",
        "/ query.size(-1)  #",
        "test_architecture.py::test_multi_head_attention_is_torchs",
    ),
    Mutant(
        OWN,
        "mask says where not to attend",
        "hidden = mask == 0",
        "hidden = mask != 0",
        "test_architecture.py::test_attention_rows_are_distributions_over_allowed_keys",
    ),
    Mutant(
        OWN,
        "another attention function is not called",
        "x, weights = self.attention(q, k, v, mask, self.dropout)",
        "x, weights = attention(q, k, v, mask, self.dropout)",
        "test_architecture.py::test_the_function_in_use_can_be_exchanged",
    ),
    Mutant(
        OWN,
        "heads joined without moving them back",
        "return x.transpose(1, 2).flatten(-2)",
        "return x.reshape(x.size(0), x.size(2), -1)",
        "test_architecture.py::test_multi_head_attention_is_torchs",
    ),
    Mutant(
        OWN,
        "layers share their weights",
        "nn.ModuleList(copy.deepcopy(module) for _ in range(N))",
        "nn.ModuleList(module for _ in range(N))",
        "test_architecture.py::test_parameter_counts_of_the_paper",
    ),
    Mutant(
        OWN,
        "a query sees the next word",
        ".tril()",
        ".tril(1)",
        "test_architecture.py::test_later_words_do_not_change_earlier_outputs",
    ),
    Mutant(
        OWN,
        "layer norm divides by n - 1",
        "return F.layer_norm(x, self.a_2.shape, self.a_2, self.b_2, self.eps)",
        "variance = x.var(-1, keepdim=True)\n"
        "        x = (x - x.mean(-1, keepdim=True)) / (variance + self.eps).sqrt()\n"
        "        return self.a_2 * x + self.b_2",
        "test_architecture.py::"
        "test_layer_norm_divides_by_n_with_epsilon_under_the_root",
    ),
    Mutant(
        OWN,
        "layer norm adds epsilon outside the root",
        "return F.layer_norm(x, self.a_2.shape, self.a_2, self.b_2, self.eps)",
        "deviation = x.std(-1, keepdim=True, correction=0)\n"
        "        x = (x - x.mean(-1, keepdim=True)) / (deviation + self.eps)\n"
        "        return self.a_2 * x + self.b_2",
        "test_architecture.py::"
        "test_layer_norm_divides_by_n_with_epsilon_under_the_root",
    ),
    Mutant(
        OWN,
        "pre-norm and post-norm swapped",
        "        if self.norm_first:\n            return x +",
        "        if not self.norm_first:\n            return x +",
        "test_architecture.py::test_encoder_layer_is_torchs",
    ),
    Mutant(
        OWN,
        "no final norm in the encoder",
        "            x = layer(x, mask)\n        return self.norm(x)",
        "            x = layer(x, mask)\n        return x",
        "test_architecture.py::test_whole_model_is_torchs",
    ),
    Mutant(
        OWN,
        "cross-attention sees the source's padding",
        "self.src_attn(u, memory, memory, src_mask)",
        "self.src_attn(u, memory, memory, None)",
        "test_architecture.py::test_decoder_layer_is_torchs",
    ),
    Mutant(
        OWN,
        "embeddings without the root of d_model",
        "return self.lut(ids) * math.sqrt(self.d_model)",
        "return self.lut(ids)",
        "test_architecture.py::"
        "test_embeddings_start_at_unit_scale_whatever_the_vocabulary",
    ),
    Mutant(
        OWN,
        "sine and cosine swapped",
        "        pe[0, :, 0::2] = angle.sin()\n        pe[0, :, 1::2] = angle.cos()\n",
        "        pe[0, :, 0::2] = angle.cos()\n        pe[0, :, 1::2] = angle.sin()\n",
        "test_architecture.py::test_positions_follow_the_formula",
    ),
    Mutant(
        OWN,
        "in decoding with a cache every word is at position 0",
        "x = model.tgt_embed(ys.flatten(0, -2))[:, -1:]",
        "x = model.tgt_embed(ys.flatten(0, -2)[:, -1:])",
        "test_additional_components.py::test_cached_equals_uncached",
    ),
    # --- our own: chapter 2 ---------------------------------------------------
    Mutant(
        OWN,
        "padding counted in ntokens",
        "self.ntokens = int((self.tgt_y != pad).sum())",
        "self.ntokens = self.tgt_y.numel()",
        "test_training.py::test_batch_shifts_by_one_and_counts_answers",
    ),
    Mutant(
        OWN,
        "padding gets a share of the smoothing",
        "true_dist[:, self.padding_idx] = 0\n",
        "pass\n",
        "test_training.py::test_label_smoothing_is_the_divergence_from_true_dist",
    ),
    Mutant(
        OWN,
        "gradients clipped after the step",
        "                if max_norm is not None:\n"
        "                    nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n"
        "                optimizer.step()\n",
        "                optimizer.step()\n"
        "                if max_norm is not None:\n"
        "                    nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n",
        "test_training.py::test_clipping_bounds_the_step",
    ),
    Mutant(
        OWN,
        "perplexity of the smoothed criterion",
        "return math.exp(min(self.nll, 700.0))",
        "return math.exp(min(self.criterion, 700.0))",
        "test_training.py::test_evaluation_changes_nothing_and_reports_nll",
    ),
    # --- our own: chapter 3 ---------------------------------------------------
    Mutant(
        OWN,
        "long sentences cut and not counted",
        "whole = [pair for pair in examples if max(map(len, pair)) <= max_tokens]",
        "whole = [(src[:max_tokens], tgt[:max_tokens]) for src, tgt in examples]",
        "test_command_line.py::test_sentences_that_are_too_long_are_counted_and_said",
    ),
    Mutant(
        OWN,
        "budget counts the source side only",
        "        longest = max(lengths[i])\n",
        "        longest = lengths[i][0]\n",
        "test_real_world.py::test_batches_hold_every_sentence_once_within_the_budget",
    ),
    Mutant(
        OWN,
        "every epoch in the same order",
        "draw = random.Random(1000 * config.seed + epoch)",
        "draw = random.Random(config.seed)",
        "test_real_world.py::test_epochs_differ_and_repeat",
    ),
    Mutant(
        OWN,
        "a store's sentence is its neighbor",
        "pair = self.dataset[index]",
        "pair = self.dataset[index - 1]",
        "test_large_corpora.py::test_batches_from_a_store_are_those_from_lists",
    ),
    Mutant(
        OWN,
        "bfloat16 weights are those of the epoch's beginning",
        "cache_enabled=False",
        "cache_enabled=True",
        "test_real_world.py::test_bfloat16_learns_as_float32_does",
    ),
    Mutant(
        OWN,
        "confidence is the length-normalized score, not the mean",
        "math.exp(rating / length_normalized(length, length, length_penalty))",
        "math.exp(rating)",
        "test_command_line.py::test_confidence_is_the_geometric_mean_of_the_probabilities",
    ),
    Mutant(
        OWN,
        "a line is as trustworthy as its most certain sentence",
        "min((part.confidence for part in line), default=1.0)",
        "max((part.confidence for part in line), default=1.0)",
        "test_command_line.py::test_a_line_is_as_trustworthy_as_its_least_certain_sentence",
    ),
    Mutant(
        OWN,
        "known words are respelled as well",
        "return chosen if better else word",
        "return chosen",
        "test_command_line.py::test_no_sentence_of_multi30k_is_respelled",
    ),
    Mutant(
        OWN,
        "a threshold outlives the weights it was chosen for",
        '(self.folder / "confidence.json").unlink(missing_ok=True)',
        "pass",
        "test_command_line.py::test_more_training_discards_the_threshold",
    ),
    Mutant(
        OWN,
        "translations get other keys than their rows",
        "yield keys[i], output",
        "yield i, output",
        "test_command_line.py::test_confidence_is_the_geometric_mean_of_the_probabilities",
    ),
    Mutant(
        OWN,
        "BLEU of lower-cased text",
        "metric = sacrebleu.BLEU()",
        "metric = sacrebleu.BLEU(lowercase=True)",
        "test_command_line.py::test_evaluate_prints_one_object",
    ),
    # --- our own: chapter 4 ---------------------------------------------------
    Mutant(
        OWN,
        "</s> in a text becomes the end symbol",
        'learned["added_tokens"] = []',
        'learned["added_tokens"] = learned["added_tokens"]',
        "test_additional_components.py::"
        "test_special_tokens_come_first_and_are_never_found_in_text",
    ),
    Mutant(
        OWN,
        "length penalty's exponent has the wrong sign",
        "return log_p / ((5 + length) / 6) ** alpha",
        "return log_p / ((5 + length) / 6) ** -alpha",
        "test_additional_components.py::test_the_length_penalty_decides",
    ),
    Mutant(
        OWN,
        "cache not reordered while no sentence ends",
        "if rows != list(range(len(self.target[0][0]))):",
        "if len(rows) != len(self.target[0][0]):",
        "test_additional_components.py::test_the_rating_is_that_of_the_output",
    ),
    Mutant(
        OWN,
        "search stops while a longer output may win",
        "_may_win(finished[sentences[row]], now, max(now, last), beam_size)",
        "_may_win(finished[sentences[row]], now, now, beam_size)",
        "test_additional_components.py::test_the_length_penalty_decides",
    ),
    Mutant(
        OWN,
        "search with a negative penalty believes that ratings fall",
        "max(now, last), beam_size",
        "last, beam_size",
        "test_additional_components.py::test_a_negative_penalty_does_not_end_the_search_early",
    ),
    Mutant(
        OWN,
        "cached decoding calls an attention of its own",
        "heads, weights = attn.attention(query, keys, values, mask, attn.dropout)",
        "heads, weights = attention(query, keys, values, mask, attn.dropout)",
        "test_attention_visualization.py::"
        "test_another_attention_function_changes_what_is_translated",
    ),
    # --- our own: chapter 5 ---------------------------------------------------
    Mutant(
        OWN,
        "a block of plain attention does not put the function back",
        "            module.attention = function\n",
        "            module.attention = attention\n",
        "test_architecture.py::test_plain_attention_comes_and_goes",
    ),
    Mutant(
        OWN,
        "the map is drawn turned over",
        "value = m.tolist()",
        "value = m.T.tolist()",
        "test_attention_visualization.py::test_a_planted_weight_is_drawn_where_it_belongs",
    ),
    Mutant(
        OWN,
        "the row that reads a word is taken for the one that writes it",
        "return chosen[..., shift : weights.size(-2) - 1 + shift, 1:-1]",
        "return chosen[..., 1 - shift : weights.size(-2) - shift, 1:-1]",
        "test_attention_visualization.py::"
        "test_links_found_counts_rows_whose_largest_weight_is_on_a_link",
    ),
    Mutant(
        OWN,
        "another head than the chosen one",
        "(Head < 0 || datum.head == Head)",
        "(Head < 0 || datum.head == Head + 1)",
        "test_attention_visualization.py::test_each_choice_draws_its_own_map",
    ),
    Mutant(
        OWN,
        "weights taken away do not come back",
        "part.detach().copy_(before)",
        "part.detach().copy_(part)",
        "test_attention_visualization.py::test_weights_come_back_after_an_error",
    ),
    Mutant(
        OWN,
        "the silent head is another one",
        "    first = head * attn.d_k\n",
        "    first = (attn.h - 1 - head) * attn.d_k\n",
        "test_attention_visualization.py::test_a_silent_head_is_silent_in_every_path",
    ),
    Mutant(
        OWN,
        "attention mixes keys instead of values",
        "x, weights = self.attention(q, k, v, mask, self.dropout)",
        "x, weights = self.attention(q, k, k, mask, self.dropout)",
        "test_attention_visualization.py::"
        "test_planted_maps_are_what_the_model_predicts_from",
    ),
    # --- our own: chapter 6 ---------------------------------------------------
    Mutant(
        OWN,
        "RMS norm divides by the length of the vector",
        "mean_square = x.square().mean(dim=-1, keepdim=True)",
        "mean_square = x.square().sum(dim=-1, keepdim=True)",
        "test_since_2017.py::test_rms_norm_is_torchs",
    ),
    Mutant(
        OWN,
        "a cached query is rotated as if it came first",
        "positions = slice(length - x.size(-2), length)",
        "positions = slice(0, x.size(-2))",
        "test_since_2017.py::test_a_query_is_rotated_alike_with_and_without_a_cache",
    ),
    Mutant(
        OWN,
        "cross-attention is rotary instead of self-attention",
        "attn = layer.self_attn\n                attn.attention = Rotary",
        "attn = getattr(layer, 'src_attn', layer.self_attn)\n"
        "                attn.attention = Rotary",
        "test_since_2017.py::test_any_choice_of_changes_trains_decodes_and_loads",
    ),
    Mutant(
        OWN,
        "keys are normalized with the scale of the queries",
        "key = self.key_norm(key)",
        "key = self.query_norm(key)",
        "test_since_2017.py::test_scores_of_normalized_vectors",
    ),
    Mutant(
        OWN,
        "a group's queries get each other's masks",
        "mask = mask.repeat(1, 1, shared_by, 1)",
        "mask = mask.repeat_interleave(shared_by, dim=2)",
        "test_since_2017.py::test_grouped_queries_are_a_loop_and_torchs",
    ),
    Mutant(
        OWN,
        "SwiGLU is as wide as the network it replaces",
        "SwiGLU(d_model, 2 * d_ff // 3, dropout)",
        "SwiGLU(d_model, d_ff, dropout)",
        "test_since_2017.py::test_swiglu_has_as_many_weights_as_what_it_replaces",
    ),
    Mutant(
        OWN,
        "in one stack the source sees the target",
        "later = src_mask.new_zeros(B, S, L)",
        "later = src_mask.new_ones(B, S, L)",
        "test_since_2017.py::"
        "test_the_target_sees_no_future_and_the_source_all_of_the_source",
    ),
    Mutant(
        OWN,
        "in one stack padding stays between source and target",
        "return self.src_embed(src.gather(1, padding_first))",
        "return self.src_embed(src)",
        "test_since_2017.py::test_padding_has_no_influence",
    ),
    Mutant(
        OWN,
        "the nucleus ends before the token that fills it",
        "before = best.exp().cumsum(dim=-1) - best.exp()",
        "before = best.exp().cumsum(dim=-1)",
        "test_since_2017.py::test_what_is_kept_is_the_nucleus",
    ),
    Mutant(
        OWN,
        "what is left out is put back in sorted order",
        "torch.empty_like(removed).scatter(-1, ids, removed)",
        "removed.gather(-1, ids)",
        "test_since_2017.py::test_what_is_kept_is_the_nucleus",
    ),
    Mutant(
        OWN,
        "a low temperature makes samples more random",
        "log_p = (log_p / temperature).log_softmax(dim=-1)",
        "log_p = (log_p * temperature).log_softmax(dim=-1)",
        "test_since_2017.py::test_samples_follow_the_models_probabilities",
    ),
    Mutant(
        OWN,
        "the stable phase does not reach the optimizer",
        "config.base_lr, config.warmup, total, config.decay",
        "config.base_lr, config.warmup, total",
        "test_since_2017.py::test_the_share_reaches_the_optimizer",
    ),
    # --- our own: chapter 90 --------------------------------------------------
    Mutant(
        OWN,
        "a local file's checksum is not compared",
        "            if published not in (None, found):\n",
        "            if published and not found:\n",
        "test_files_and_runs.py::test_a_local_file_with_a_wrong_checksum_is_refused",
    ),
    Mutant(
        OWN,
        "a file is renamed before it is on the disk",
        "            file.write(data)\n            file.flush()\n"
        "            os.fsync(file.fileno())\n",
        "            file.write(data)\n",
        "test_files_and_runs.py::test_data_is_on_the_disk_before_the_file_is_renamed",
    ),
    Mutant(
        OWN,
        "a file is overwritten in place",
        '    temporary = path.with_name(path.name + ".tmp")\n    path.parent',
        "    temporary = path\n    path.parent",
        "test_files_and_runs.py::test_a_failing_disk_leaves_the_old_file",
    ),
    Mutant(
        OWN,
        "resuming leaves the random numbers as they are",
        "            torch.set_rng_state(tensor)\n",
        "            pass\n",
        "test_resume.py::test_a_run_that_was_killed_goes_on_as_if_nothing_had_happened",
    ),
    Mutant(
        OWN,
        "resuming repeats the last epoch",
        "progress = _Progress(epoch + 1,",
        "progress = _Progress(epoch,",
        "test_resume.py::test_resuming_takes_moments_schedule_and_counters_back",
    ),
    Mutant(
        OWN,
        "the worst checkpoint is kept as the best",
        "loss < progress.best",
        "loss > progress.best",
        "test_resume.py::test_the_best_by_validation_is_kept",
    ),
    # --- our own: chapter 91 --------------------------------------------------
    Mutant(
        OWN,
        "translate drops blank lines",
        'f"{text}\\n".encode() for text in texts)',
        'f"{text}\\n".encode() for text in texts if text)',
        "test_command_line.py::test_one_line_out_for_one_line_in",
    ),
    Mutant(
        OWN,
        "numbers of refused lines begin anew with each piece",
        "number += len(lines)",
        "number = 0",
        "test_command_line.py::test_numbers_of_refused_lines_count_on_over_pieces",
    ),
    # --- our own: chapter 97 --------------------------------------------------
    Mutant(
        OWN,
        "old cells' translations see no words of the source",
        "src_mask = torch.ones_like(src).unsqueeze(1)",
        "src_mask = (src == 0).unsqueeze(1)",
        "test_names_of_2022.py::test_translate_sentence_is_greedy_decoding",
    ),
    # --- our own: chapter 91 --------------------------------------------------
    Mutant(
        OWN,
        "each process divides by its own tokens",
        "return self.loss_compute(x, y, tokens / processes)",
        "return self.loss_compute(x, y, norm)",
        "test_distributed.py::test_two_processes_take_the_steps_of_one[1-None]",
    ),
    # --- our own: chapter 90 --------------------------------------------------
    Mutant(
        OWN,
        "a state is saved while gradients wait",
        "                state.add(batch, total, loss_compute.nll)\n",
        "                state.add(batch, total, loss_compute.nll)\n"
        "                if training and callback is not None:\n"
        "                    callback(state)\n",
        "test_resume.py::test_a_window_of_several_batches_is_not_broken_up",
    ),
    Mutant(
        OWN,
        "the sums of a broken-off epoch are lost",
        "                self.state.mid_epoch = self.progress.batches > 0\n",
        "                pass\n",
        "test_resume.py::test_a_run_goes_on_within_an_epoch",
    ),
    Mutant(
        OWN,
        "a batch is trained on twice after a break",
        "itertools.islice(data_iter, done, None)",
        "itertools.islice(data_iter, max(done - 1, 0), None)",
        "test_resume.py::test_a_run_goes_on_within_an_epoch",
    ),
    Mutant(
        OWN,
        "states are saved late",
        "age >= self.config.save_seconds",
        "age >= 2 * self.config.save_seconds",
        "test_resume.py::test_at_most_save_seconds_of_work_are_lost",
    ),
    Mutant(
        OWN,
        "batches of a finished update are not freed",
        "        self.window.clear()\n",
        "        pass\n",
        "test_resume.py::test_batches_of_a_finished_update_are_forgotten",
    ),
    Mutant(
        OWN,
        "a resumed run announces the time of a whole one",
        "total * (run.config.epochs - epoch) - done",
        "total * run.config.epochs - done",
        "test_resume.py::test_a_run_that_goes_on_counts_what_is_left",
    ),
    Mutant(
        OWN,
        "a resumed run does not notice that its training text has changed",
        'digest.update(array("i", [len(src), *src, *tgt]).tobytes())',
        'digest.update(array("i", [len(src)]).tobytes())',
        "test_resume.py::test_another_text_is_refused_before_anything_is_written",
    ),
    Mutant(
        OWN,
        "gradients from before an epoch reach its first update",
        "            if training:\n                optimizer.zero_grad()\n",
        "",
        "test_training.py::test_gradients_left_in_a_model_do_not_influence_an_epoch",
    ),
    Mutant(
        OWN,
        "a gradient that is no number reaches the weights",
        '        _check_finite("gradient\'s norm", norm, state)\n',
        "",
        "test_training.py::test_an_infinite_gradient_stops_before_any_weight_is_touched",
    ),
    Mutant(
        OWN,
        "a run's folder is not claimed while it trains",
        "        claim_folder(Path(config.run_dir)),\n",
        "",
        "test_resume.py::test_a_process_holds_its_folder_until_it_has_trained",
    ),
    Mutant(
        OWN,
        "a folder in which another process trains is opened",
        "    with claim_folder(folder):  # an error if another process trains there\n",
        "    if True:\n",
        "test_resume.py::test_a_folder_in_which_a_process_trains_is_left_alone",
    ),
    Mutant(
        OWN,
        "a resumed run changes its precision in silence",
        "            if before != now and _is_main_process():\n",
        "            if False:\n",
        "test_resume.py::test_a_run_that_goes_on_in_another_precision_says_so",
    ),
    # --- our own: chapter 91 --------------------------------------------------
    Mutant(
        OWN,
        "a store of one's own is taken for the captions",
        '{"store", "train_src", ',
        '{"train_src", ',
        "test_command_line.py::test_a_store_of_ones_own_is_real_text",
    ),
    # --- our own: chapter 93 --------------------------------------------------
    Mutant(
        OWN,
        "the fused kernel adds a mask of numbers",
        "allowed = None if mask is None else mask != 0",
        "allowed = mask",
        "test_architecture.py::test_masks_of_any_type_mean_the_same",
    ),
    Mutant(
        OWN,
        "optimizing copies the weights",
        "self.weight = linear.weight",
        "self.weight = nn.Parameter(linear.weight.detach().clone())",
        "test_quick_steps.py::test_what_is_exchanged_shares_the_parameters",
    ),
]

# What takes longest to import is imported once; each job forks from there.
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(
    ["torch", "torch._dynamo", "hypothesis", "nbval.plugin"]
)


class Stop(Exception):
    """A fault can't be planted or tested."""


def planted(mutant: Mutant, module: str) -> str:
    """Return the module's text with the fault in it."""
    times = module.count(mutant.old)
    if times != 1:
        raise Stop(f"{mutant.fault}: its old text occurs {times} times in the module")
    return module.replace(mutant.old, mutant.new)


def copy_project(folder: Path, module: str) -> None:
    """Copy what the tests need, with this text as the module."""
    for name in COPIED + LINKED:
        source, target = ROOT / name, folder / name
        if name in LINKED and source.exists():
            target.symlink_to(source)
        elif source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.pyc"))
        elif source.exists():
            shutil.copy(source, target)
    (folder / MODULE.name).write_text(module, encoding="utf-8")


class Watch:
    """A pytest plugin that remembers the first test that failed."""

    failed = ""

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid.removeprefix("tests/")


def failure(what: str, module: str, tests: list[str]) -> str:
    """Return the first of the tests that fails with this module, or "".

    Needs a process of its own: it moves into the copy and imports the module there.
    """
    watch, said = Watch(), io.StringIO()
    options = ["-x", "-q", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(said):
        copy_project(Path(folder), module)
        os.chdir(folder)
        status = pytest.main([*options, *(f"tests/{t}" for t in tests)], [watch])
        tested = importlib.util.find_spec(MODULE.stem).origin
        if not os.path.samefile(tested, MODULE.name):
            raise Stop(f"{what}: {tested} was tested in place of the copy")
    if status not in (0, 1) or (status == 1) != bool(watch.failed):
        raise Stop(f"{what}: pytest could not run\n{said.getvalue()}")
    return watch.failed


def main(words: list[str]) -> int:
    """Print the table; return 0 if every fault was caught."""
    os.environ["OMP_NUM_THREADS"] = "1"
    chosen = [
        mutant
        for mutant in MUTANTS
        if not words or any(word in f"{mutant.row} {mutant.fault}" for word in words)
    ]
    if not chosen:
        raise Stop(f"no fault is called {' or '.join(words)}")
    module = MODULE.read_text(encoding="utf-8")
    tests = sorted({test for mutant in chosen for test in mutant.tests.split()})
    jobs = [("no fault", module, tests)]
    jobs += [(m.fault, planted(m, module), m.tests.split()) for m in chosen]
    print(f"{len(tests)} tests without a fault first, then {len(chosen)} faults.")
    survived = 0
    with (
        ProcessPoolExecutor(2, FORKSERVER, max_tasks_per_child=1) as pool,
        closing(pool.map(failure, *zip(*jobs, strict=True))) as failures,
    ):
        if broken := next(failures):
            raise Stop(f"{broken} fails without any fault")
        print(LINE.format("known error", "fault planted here", "caught by"))
        for mutant, test in zip(chosen, failures, strict=True):
            print(LINE.format(mutant.row, mutant.fault, test or "SURVIVED"), flush=True)
            survived += not test
    print(f"{len(chosen) - survived} of {len(chosen)} faults caught")
    return 1 if survived else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except Stop as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
