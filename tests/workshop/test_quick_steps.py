"""What makes a step fast on a CPU changes no result (chapter 93)."""

import copy
import platform
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import annotated_transformer as at
from transformer_workshop.models.speed import (
    CheapDropout,
    map_in_threads,
    optimize_for_cpu,
)

CPU = torch.device("cpu")

only_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="another C library has other settings"
)


def small_model(tie="none", **options):
    torch.manual_seed(1)
    model = at.make_model(40, 40, 2, 32, 64, 4, **options)
    at.tie_weights(model, tie)
    return model


@pytest.fixture
def threads():
    """Return a function that sets PyTorch's number of threads for this test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_what_is_exchanged_shares_the_parameters():
    model = small_model(tie="all")
    before, names = dict(model.named_parameters()), list(model.state_dict())
    optimize_for_cpu(model)
    optimize_for_cpu(model)  # a second time changes nothing
    after = dict(model.named_parameters())
    assert names == list(model.state_dict()) and before.keys() == after.keys()
    assert all(after[name] is before[name] for name in before)
    assert not any(type(m) is nn.Dropout for m in model.modules())
    assert model.generator.proj.weight is model.tgt_embed[0].lut.weight
    assert all(not vars(m).keys() & {"forward", "__class__"} for m in model.modules())


@pytest.mark.parametrize("norm_first", [True, False])
def test_an_optimized_model_computes_the_same(norm_first):
    """Compare outputs, losses and gradients, in training and in evaluation mode."""
    plain = small_model(dropout=0.0, norm_first=norm_first)
    fast = copy.deepcopy(plain)
    optimize_for_cpu(fast)
    src, tgt = torch.randint(4, 40, (6, 9)), torch.randint(4, 40, (6, 8))
    src[2:, 6:] = tgt[3:, 5:] = at.PAD
    batch, criterion = at.Batch(src, tgt), at.LabelSmoothing(40, at.PAD, 0.1)
    for training in (True, False):
        found = []
        for model in (plain.train(training), fast.train(training)):
            out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
            loss = at.SimpleLossCompute(model.generator, criterion)
            _, node = loss(out, batch.tgt_y, batch.ntokens)
            gradients = torch.autograd.grad(node, list(model.parameters()))
            found.append([out, node, *gradients])
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    heads = [m for m in fast.modules() if isinstance(m, at.MultiHeadedAttention)]
    assert heads and all(m.attn is None for m in heads)


def test_cheap_dropout_is_on_where_dropout_was():
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    model[1].eval()
    optimize_for_cpu(model)
    assert [type(each) for each in model] == [CheapDropout] * 2
    assert [each.training for each in model] == [True, False]


def steps_of(model):
    """Return log-probabilities of the last words of three outputs, with a cache."""
    src = torch.arange(4, 31).view(3, 9)
    src[1, 5:] = at.PAD
    mask = (src != at.PAD).unsqueeze(-2)
    ys = torch.arange(4, 19).view(3, 5)
    with torch.inference_mode():
        cache = at.Cache(model.decoder, model.encode(src, mask), mask, 5)
        read = [ys[:, : t + 1] for t in range(5)]
        steps = [at.decode_step(model, cache, written) for written in read]
    return torch.stack(steps, dim=1)


@pytest.mark.parametrize("change", ["in place", "loaded", "double", "copied"])
def test_decoding_follows_the_weights(change):
    """Expect a model optimized before a change to decode like a plain one after it."""
    model = small_model(tie="all").eval()
    optimize_for_cpu(model)
    if change == "in place":
        model.decoder.layers[1].src_attn.linears[0].weight.data.mul_(2)
    elif change == "loaded":
        model.load_state_dict({n: 2 * t for n, t in model.state_dict().items()})
    elif change == "double":
        model.double()
    else:
        model = copy.deepcopy(model)
    plain = small_model(tie="all").eval().to(model.generator.proj.weight.dtype)
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(steps_of(model), steps_of(plain), rtol=1e-4, atol=1e-4)


# memory


@only_glibc
def test_what_lies_idle_is_given_back_when_it_is_too_much():
    program = """if True:
        import os, torch
        from transformer_workshop.models.speed import keep_freed_memory
        def resident():
            pages = open("/proc/self/statm").read().split()[1]
            return int(pages) * os.sysconf("SC_PAGE_SIZE") >> 20
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weight], lr=1.0)
        optimizer.step()  # which loads more of PyTorch, once
        keep_freed_memory(200 * 2**20)
        for megabytes in (150, 300):
            blocks = [torch.ones(2**18) for _ in range(megabytes)]
            last = torch.ones(2**18)  # they don't lie at the heap's end
            del blocks
            full = resident()
            optimizer.step()
            print(full - resident())
    """
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    less, more = map(int, done.stdout.split())
    assert less < 20 and more > 250


HEAPS = """if True:
    import ctypes, sys
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier
    if sys.argv[1:]:
        from transformer_workshop.models.speed import share_one_heap
        share_one_heap()
    met = Barrier(2)
    with ThreadPoolExecutor(2) as pool:  # both alive, or one would take the other's
        list(pool.map(lambda n: (bytearray(n), met.wait()), [50_000, 50_000]))
    ctypes.CDLL(None).malloc_stats()
"""


@only_glibc
def test_threads_share_one_heap_where_they_are_told_to():
    heaps = []
    for told in ([], ["told"]):
        command = [sys.executable, "-c", HEAPS, *told]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        heaps.append(done.stderr.count("Arena "))
    own, shared = heaps
    assert shared == 1 < own


# several batches at once


def test_groups_meet_as_many_threads_as_torch_has(threads):
    threads(2)
    meeting = threading.Barrier(2, timeout=1200)

    def work(n):
        meeting.wait()  # passes only if two are at work together
        return n, torch.get_num_threads()

    found = list(map_in_threads(work, [1, 2, 3, 4], CPU))
    assert found == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert torch.get_num_threads() == 2


def test_a_group_alone_stays_in_the_thread_that_asked(threads):
    threads(2)

    def work(n):
        return n, threading.get_ident(), torch.get_num_threads()

    alone = (7, threading.get_ident(), 1)
    assert list(map_in_threads(work, [7], CPU)) == [alone]
    assert torch.get_num_threads() == 2


def test_a_graphics_card_gets_one_group_at_a_time():
    at_work = threading.Semaphore(1)

    def work(n):
        assert at_work.acquire(blocking=False)
        at_work.release()
        return n

    groups = list(range(50))
    assert list(map_in_threads(work, groups, torch.device("cuda"))) == groups


def test_an_error_reaches_the_reader_and_stops_the_rest():
    done = []

    def work(n):
        if n == 1:
            raise at.DataError("group 1", "is broken", "Mend it.")
        done.append(n)

    with pytest.raises(at.DataError, match="group 1"):
        list(map_in_threads(work, range(1000), CPU))
    assert len(done) < 1000
