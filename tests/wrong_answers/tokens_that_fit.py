"""Wrong answers to the exercise tokens_that_fit."""


def cache_bytes(N, h_kv, d_k, bytes_per_number):
    return 2 * N * h_kv * d_k * bytes_per_number


def fitting(memory, batch, *size):
    return memory // (batch * cache_bytes(*size))


WRONG = [
    (lambda N, h_kv, d_k, b: N * h_kv * d_k * b, fitting),  # keys alone
    (lambda N, h_kv, d_k, b: 2 * h_kv * d_k * b, fitting),  # one layer
    (lambda N, h_kv, d_k, b: 2 * N * h_kv * d_k, fitting),  # numbers
    (lambda N, h_kv, d_k, b: 2 * N * d_k * b, fitting),  # one head
    (lambda *size: 8 * cache_bytes(*size), fitting),  # bits
    (lambda N, h_kv, d_k, b: 2 * N * h_kv * d_k * 4, fitting),  # always 4 bytes
    (cache_bytes, lambda memory, batch, *size: memory // cache_bytes(*size)),
    (cache_bytes, lambda memory, batch, *s: memory / (batch * cache_bytes(*s))),
    (cache_bytes, lambda memory, batch, *s: -(-memory // (batch * cache_bytes(*s)))),
    (cache_bytes, lambda memory, batch, *size: cache_bytes(*size) // memory),
]
