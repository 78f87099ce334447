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

CPU = torch.device("cpu")

only_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="another C library has other settings"
)


def small_model(**options):
    torch.manual_seed(1)
    return at.make_model(40, 40, 2, 32, 64, 4, **options)


def test_what_is_exchanged_shares_the_parameters():
    model = small_model(tie="all")
    before, names = dict(model.named_parameters()), list(model.state_dict())
    at.optimize_for_cpu(model)
    at.optimize_for_cpu(model)  # a second time changes nothing
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
    at.optimize_for_cpu(fast)
    src, tgt = torch.randint(4, 40, (6, 9)), torch.randint(4, 40, (6, 8))
    src[2:, 6:] = tgt[3:, 5:] = at.PAD
    batch = at.Batch(src, tgt)
    for training in (True, False):
        found = []
        for model in (plain.train(training), fast.train(training)):
            loss = at.SimpleLossCompute(
                model.generator, at.LabelSmoothing(40, at.PAD, 0.1)
            )
            out = model(batch.src, batch.tgt, batch.src_mask, batch.tgt_mask)
            _, node = loss(out, batch.tgt_y, batch.ntokens)
            found.append(
                [out, node, *torch.autograd.grad(node, list(model.parameters()))]
            )
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    heads = [m for m in fast.modules() if isinstance(m, at.MultiHeadedAttention)]
    assert heads and all(m.attn is None for m in heads)


def test_cheap_dropout_is_on_where_dropout_was():
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    model[1].eval()
    at.optimize_for_cpu(model)
    assert [type(each) for each in model] == [at.CheapDropout] * 2
    assert [each.training for each in model] == [True, False]


def test_cheap_dropout_drops_the_share_it_says_and_keeps_the_mean():
    torch.manual_seed(0)
    x = torch.ones(1_000_001, requires_grad=True)  # not a multiple of four
    for drop in (nn.Dropout(0.25), at.CheapDropout(0.25)):
        y = drop(x)
        assert (y == 0).double().mean().item() == pytest.approx(0.25, abs=0.002)
        assert y.double().mean().item() == pytest.approx(1, abs=0.003)
        assert torch.equal(torch.autograd.grad(y.sum(), x)[0], y.detach())
        assert torch.equal(drop.eval()(x), x)


def steps_of(model):
    """Return log-probabilities of five steps of two hypotheses for three sources."""
    generator = torch.Generator().manual_seed(3)
    src = torch.randint(4, 40, (3, 9), generator=generator)
    src[1, 5:] = at.PAD
    ys = torch.randint(4, 40, (3, 2, 5), generator=generator)
    ys[:, :, 0] = at.START
    with torch.inference_mode():
        cache = at.BeamCache(model, src, (src != at.PAD).unsqueeze(-2))
        found = [at.decode_step(model, cache, ys[:, :1, :1])]
        cache.follow([b for b in range(3) for _ in range(2)])
        for t in range(2, 6):
            found.append(at.decode_step(model, cache, ys[:, :, :t]))
    return found


def changed_in_place(model):
    model.decoder.layers[1].src_attn.linears[0].weight.data.mul_(2)


def loaded_anew(model):
    state = small_model(tie="all").state_dict()
    model.load_state_dict({name: 2 * tensor for name, tensor in state.items()})


@pytest.mark.parametrize(
    "change", [changed_in_place, loaded_anew, nn.Module.double, copy.deepcopy]
)
def test_decoding_follows_the_weights(change):
    """Expect a model optimized before a change to decode like a plain one after it."""
    plain, model = (small_model(tie="all").eval() for _ in range(2))
    at.optimize_for_cpu(model)
    plain, model = change(plain) or plain, change(model) or model
    for a, b in zip(steps_of(model), steps_of(plain), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


# memory


@only_glibc
def test_what_lies_idle_is_given_back_when_it_is_too_much():
    program = """if True:
        import os, sys, torch, annotated_transformer as at
        def resident():
            pages = open("/proc/self/statm").read().split()[1]
            return int(pages) * os.sysconf("SC_PAGE_SIZE") >> 20
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weight], lr=1.0)
        optimizer.step()  # which loads more of PyTorch, once
        at.keep_freed_memory(int(sys.argv[1]) * 2**20)
        blocks = [torch.ones(2**18) for _ in range(300)]  # a megabyte each
        last = torch.ones(2**18)  # they don't lie at the heap's end
        del blocks
        full = resident()
        optimizer.step()
        print(full - resident())
    """
    given_back = []
    for limit in ("400", "100"):
        command = [sys.executable, "-c", program, limit]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        given_back.append(int(done.stdout))
    less, more = given_back
    assert less < 20 and more > 250


HEAPS = """if True:
    import ctypes, sys, annotated_transformer as at
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier
    if sys.argv[1:]:
        at.share_one_heap()
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


def test_groups_meet_as_many_threads_as_torch_has():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        meeting = threading.Barrier(2, timeout=1200)

        def work(n):
            meeting.wait()  # passes only if two are at work together
            return n, torch.get_num_threads()

        found = list(at.map_in_threads(work, [1, 2, 3, 4], CPU))
        assert found == [(1, 1), (2, 1), (3, 1), (4, 1)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_group_alone_stays_in_the_thread_that_asked():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        work = lambda n: (n, threading.get_ident(), torch.get_num_threads())  # noqa: E731
        assert list(at.map_in_threads(work, [7], CPU)) == [
            (7, threading.get_ident(), 1)
        ]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_graphics_card_gets_one_group_at_a_time():
    at_work = threading.Semaphore(1)

    def work(n):
        assert at_work.acquire(blocking=False)
        at_work.release()
        return n

    groups = list(range(50))
    assert list(at.map_in_threads(work, groups, torch.device("cuda"))) == groups


def test_an_error_reaches_the_reader_and_stops_the_rest():
    done = []

    def work(n):
        if n == 1:
            raise at.DataError("group 1", "is broken", "Mend it.")
        done.append(n)

    with pytest.raises(at.DataError, match="group 1"):
        list(at.map_in_threads(work, range(1000), CPU))
    assert len(done) < 1000


def test_threads_translate_as_one_does():
    translator = at.load_translator(at.project_folder() / "models" / "captions", "cpu")
    sentences = at.read_lines(at.data_file("captions", "test.de"))[:120]
    before = torch.get_num_threads()
    alone = translator.translate(sentences)
    torch.set_num_threads(3)
    try:
        assert translator.translate(sentences) == alone
    finally:
        torch.set_num_threads(before)
