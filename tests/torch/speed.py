"""Prints how long a Llama with random weights takes to generate, by itself, with torch.compile and with Lathe.

usage: speed.py [THREADS...]   default: 1, and every core
The variants of a line run in turns in one process, and the fastest of the rounds counts. With one thread the time is
the thread's own, which other processes disturb less. docs/pytorch.md has results.
"""

import copy
import os
import sys
import time
import warnings

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

import lathe
import lathe.torch

ROUNDS, TOKENS, PROMPT = 5, 24, 32
CONFIG = dict(vocab_size=8192, hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16,
              num_key_value_heads=4, max_position_embeddings=512)


def best(functions, rounds=ROUNDS):
    """The least seconds of each function over the rounds."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    least = [float("inf")] * len(functions)
    for _ in range(rounds):
        for index, function in enumerate(functions):
            start = clock()
            function()
            least[index] = min(least[index], clock() - start)
    return least


class Decoder:
    """Prompt and greedy decoding over a static cache, so that torch.compile compiles two shapes only."""

    def __init__(self, model, batch, compiled=False):
        self.model, self.batch = model, batch
        self.call = torch.compile(model.forward, dynamic=False) if compiled else model.forward
        self.cache = StaticCache(config=model.config, max_cache_len=PROMPT + TOKENS)
        self.prompt = torch.randint(0, CONFIG["vocab_size"], (batch, PROMPT),
                                    generator=torch.Generator().manual_seed(0))

    @torch.inference_mode()
    def step(self, tokens, first):
        positions = torch.arange(first, first + tokens.shape[1])
        logits = self.call(input_ids=tokens, past_key_values=self.cache, cache_position=positions,
                           position_ids=positions[None], use_cache=True, logits_to_keep=1).logits
        self.logits.append(logits[:, -1])
        return logits[:, -1].argmax(-1, keepdim=True)

    @torch.inference_mode()
    def prefill(self):
        self.cache.reset()
        self.logits = []  # of each step
        self.last = self.step(self.prompt, 0)

    def generate(self):
        self.prefill()
        tokens = [self.last]
        for index in range(TOKENS - 1):
            tokens.append(self.step(tokens[-1], PROMPT + index))
        return torch.cat(tokens, 1)


def spacing(logit):
    """The distance of a bfloat16 number to the next one."""
    return torch.finfo(torch.bfloat16).eps * 2.0**logit.abs().log2().floor()


def explain_differences(tokens, decoder, other_tokens, other):
    """Prints why sequences of two bf16 models differ: at the first difference the logits of both tokens are close.

    Each logit is off by up to two spacings of bfloat16 in either model, so where the best two are closer than that, the
    better one is an accident of rounding. Returns whether that explains every difference.
    """
    gaps = []
    for row in range(len(tokens)):
        differing = (tokens[row] != other_tokens[row]).nonzero()
        if len(differing) == 0:
            continue
        at = differing[0].item()
        one, two = tokens[row, at], other_tokens[row, at]
        first, second = decoder.logits[at][row].double(), other.logits[at][row].double()
        gaps.append(max((first[one] - first[two]) / spacing(first[one]),
                        (second[two] - second[one]) / spacing(second[two])).item())
    where = f"; at first by two logits at most {max(gaps):.0f} spacings of bf16 apart" if gaps else ""
    print(f"  {len(gaps)} of {len(tokens)} sequences of bf16 differ from eager's{where}")
    return all(gap <= 2 for gap in gaps)


def overhead():
    """Microseconds of one call of a layer with 4 inputs and outputs."""
    x, layer = torch.ones(1, 4), torch.nn.Linear(4, 4, bias=False).requires_grad_(False)
    fast = lathe.torch.LatheLinear(layer)
    calls = {"torch.nn.functional.linear": lambda: torch.nn.functional.linear(x, layer.weight),
             "nn.Linear": lambda: layer(x), "LatheLinear": lambda: fast(x),
             "torch.ops.lathe.linear": lambda: torch.ops.lathe.linear(x, layer.weight)}

    def many(call):
        for _ in range(2000):
            call()

    with torch.inference_mode():
        times = best([lambda call=call: many(call) for call in calls.values()], 15)
    for name, seconds in zip(calls, times):
        print(f"  {name:<28} {seconds / 2000 * 1e6:6.2f} us")


def main():
    warnings.filterwarnings("ignore", category=FutureWarning)  # transformers renames arguments
    threads = [int(argument) for argument in sys.argv[1:]] or sorted({1, len(os.sched_getaffinity(0))})
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**CONFIG)).eval().to(torch.bfloat16)
    models = {"bf16": lathe.torch.optimize(copy.deepcopy(model), m_max=8 * PROMPT),
              "int8": lathe.torch.optimize(copy.deepcopy(model), "int8", m_max=8 * PROMPT),
              "q4_k": lathe.torch.optimize(copy.deepcopy(model), "q4_k", m_max=8 * PROMPT)}
    explained = True
    for count in threads:
        torch.set_num_threads(count)
        lathe.torch.share_threads()
        print(f"\n{count} thread{'s' if count > 1 else ''}\na call:")
        overhead()
        print("ms per token:", *("eager", "compile", *models), sep="\t", flush=True)
        for batch in (1, 8):
            decoders = [Decoder(model, batch), Decoder(model, batch, compiled=True),
                        *(Decoder(one, batch) for one in models.values())]
            first = [decoder.generate() for decoder in decoders]
            explained = explain_differences(first[0], decoders[0], first[2], decoders[2]) and explained
            prefill = best([decoder.prefill for decoder in decoders])
            whole = best([decoder.generate for decoder in decoders])
            decode = [generate - prompt for generate, prompt in zip(whole, prefill)]
            print(f"batch {batch}, prompt", *(f"{t * 1e3 / PROMPT / batch:.2f}" for t in prefill), sep="\t")
            print(f"batch {batch}, decode", *(f"{t * 1e3 / (TOKENS - 1):.2f}" for t in decode), sep="\t")
            print("tokens as eager's", *(f"{(tokens == first[0]).float().mean() * 100:.0f} %" for tokens in first),
                  sep="\t", flush=True)
    sys.exit(0 if explained else "tokens differ by more than rounding")


if __name__ == "__main__":
    main()
