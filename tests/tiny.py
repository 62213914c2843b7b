"""Tiny models and a byte tokenizer, made in code, for tests whose ids and positions are written by hand."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

UNK, BOS, IM_START, IM_END = 256, 257, 258, 259
VOCAB_SIZE = 260

# Behaves as SmolLM2's: a default system turn in front of a conversation that has none.
_TEMPLATE = """\
{%- if messages and messages[0]['role'] != 'system' -%}
{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}
{%- endif -%}
{%- for turn in messages -%}
{{ '<|im_start|>' + turn['role'] + '\n' + turn['content'] + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\n' }}
{%- endif -%}
"""


def byte_tokenizer(*, bos: bool = False, template: str | None = _TEMPLATE) -> PreTrainedTokenizerFast:
    """A tokenizer in which every byte of a text is one token and its id is the byte: `list(b"text")` are the ids.

    Special tokens: `<unk>` 256, `<s>` 257, `<|im_start|>` 258, `<|im_end|>` 259 (also pad and end of sequence, as in
    SmolLM2). With `bos` the tokenizer puts `<s>` before every text; without, it has no BOS at all.
    """
    # Byte-level BPE writes each byte as one visible character: printable Latin-1 as itself, the others from U+0100 up.
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in visible]
    vocab = {chr(b): b for b in visible} | {chr(0x100 + i): b for i, b in enumerate(hidden)}
    core = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(["<unk>", "<s>", "<|im_start|>", "<|im_end|>"])
    names = {"unk_token": "<unk>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    if bos:
        core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
        names["bos_token"] = "<s>"
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, clean_up_tokenization_spaces=False, **names)
    tokenizer.chat_template = template
    return tokenizer


def tiny_llama(seed: int = 0, **overrides: Any) -> LlamaForCausalLM:
    """A random Llama in float32 and eval mode: 2 layers, 4 query and 2 KV heads, head_dim 16, vocabulary of the bytes.

    `overrides` are fields of LlamaConfig. The wide initializer makes faults show: with the default 0.02 most of them
    stay below 1e-3. There is no end of sequence, so that generation runs to its full length.
    """
    config = LlamaConfig(
        **{
            "vocab_size": VOCAB_SIZE,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "initializer_range": 0.5,
            "bos_token_id": None,
            "eos_token_id": None,
            "pad_token_id": None,
            **overrides,
        }
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()
