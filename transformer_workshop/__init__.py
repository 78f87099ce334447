"""The workshop: what one needs to use the model that the textbook teaches.

Each file answers one question, which its first line asks. They import the textbook,
annotated_transformer; it never imports them, and finds their names through FILE_OF.
"""

from importlib import import_module
from typing import Any

__version__ = "2026.3"

_NAMES = {
    "machine": """
        processor_name describe_environment choose_device
    """,
    "files": """
        log write_atomically atomic_folder append_line write_json read_json
        save_tensors fingerprint load_with_notes load_tensors
    """,
    "settings": """
        TrainingConfig CONFIGS choose_config load_config run_settings from_2022
        DEFAULT_MODEL CAPTIONS_MODEL default_model
    """,
    "corpora": """
        load_pairs load_examples digest_of prepare_store open_store load_text
    """,
    "runs": """
        run_files saved_steps open_run_folder is_finished read_metrics claim_folder
        average_checkpoints Progress Run resume_hint Stopped raise_on_signal
        is_out_of_memory count_updates build_losses schedule_of train_resumably
        train_run
    """,
    "recipes": """
        RDrop Muon MuonAndAdam orthogonalize build_optimizers
    """,
    "modern": """
        NormalizedCrossAttention modern_model
    """,
    "translator": """
        load_threshold save_translator load_translator split_sentences respell
        Translation Translator evaluate calibrate build_model
    """,
    "terminal": """
        VERSION main
    """,
    "processes": """
        process_group distribute own_batches sum_over_processes SharedState SharedLoss
        check_finite check_gradients run_in_processes number_process is_launched
        is_main_process
    """,
    "speed": """
        CheapDropout keep_freed_memory LeanLabelSmoothing
        choose_precision autocast fused_attention optimize_for_cpu
        map_in_threads share_one_heap
    """,
    "engine": """
        QUANTIZATIONS export_to_ctranslate2 is_exported ExportedTranslator
        load_exported
    """,
    "charts": """
        CHART_COLORS use_charts attention_grid head_squares
        error_rate_chart
        explorer sentence_pair attention_page readable Explanation explain
    """,
    "names_of_2022": """
        is_interactive_notebook show_example execute_example DummyOptimizer
        DummyScheduler tokenize load_vocab yield_tokens collate_batch
        create_dataloaders check_outputs load_trained_model run_model_example
        load_old_weights translate_sentence calculate_bleu viz_encoder_self
        viz_decoder_self viz_decoder_src train_worker train_model
        train_distributed_model
    """,
}
FILE_OF = {
    name: f"{__name__}.{file}"
    for file, names in _NAMES.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    """Import the file that defines a name of FILE_OF."""
    if name in FILE_OF:
        return getattr(import_module(FILE_OF[name]), name)
    raise AttributeError(f"{__name__} has no attribute {name!r}", name=name)
