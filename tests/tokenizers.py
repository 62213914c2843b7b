"""Small tokenizers made in code, and chat templates that behave as those of published models.

The templates are our own, short spellings. What they do was read off the models' published `tokenizer_config.json`:
where the system turn goes, what is stripped, refused, added, and which special tokens are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

_ALTERNATE = """\
{%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif -%}
"""

# HuggingFaceTB/SmolLM2-135M-Instruct: ChatML with a default system turn.
SMOLLM2 = """\
{%- if messages[0]['role'] != 'system' -%}
{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}
{%- endif -%}
{%- for turn in messages -%}
{{ '<|im_start|>' + turn['role'] + '\n' + turn['content'] + '<|im_end|>' + '\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}
"""

# Qwen/Qwen2.5-0.5B-Instruct without its tools: ChatML, the default system turn only in front of another first role, and
# an assistant's turn spelled like the others.
QWEN25 = """\
{%- if messages[0]['role'] == 'system' -%}
{{ '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
{%- else -%}
{{ '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}
{%- endif -%}
{%- for turn in messages -%}
{%- if turn['role'] != 'system' or not loop.first -%}
{{ '<|im_start|>' + turn['role'] + '\n' + turn['content'] + '<|im_end|>' + '\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}
"""

# meta-llama/Llama-2-7b-chat-hf: the system turn goes into the first user turn, a BOS opens each user turn, contents are
# stripped (the system's is not), an assistant's turn ends in EOS, and nothing opens the reply.
LLAMA2 = (
    """\
{%- set system = messages[0]['content'] if messages[0]['role'] == 'system' else false -%}
{%- for turn in (messages if system is false else messages[1:]) -%}
"""
    + _ALTERNATE
    + """\
{%- set content = turn['content'] -%}
{%- if loop.first and system is not false -%}
{%- set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + content -%}
{%- endif -%}
{%- if turn['role'] == 'user' -%}
{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
{%- elif turn['role'] == 'assistant' -%}
{{ ' ' + content.strip() + ' ' + eos_token }}
{%- endif -%}
{%- endfor -%}
"""
)

# google/gemma-2-2b-it: BOS first, no system turn, the assistant is called "model", contents are trimmed.
GEMMA = (
    """\
{{- bos_token -}}
{%- if messages[0]['role'] == 'system' -%}{{ raise_exception('System role not supported') }}{%- endif -%}
{%- for turn in messages -%}
"""
    + _ALTERNATE
    + """\
{%- set role = 'model' if turn['role'] == 'assistant' else turn['role'] -%}
{{ '<start_of_turn>' + role + '\n' + turn['content'] | trim + '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
"""
)

# HuggingFaceH4/zephyr-7b-beta: role markers that are text, not special tokens; EOS closes every turn.
ZEPHYR = """\
{%- for turn in messages -%}
{{ '<|' + turn['role'] + '|>\n' + turn['content'] + eos_token + '\n' }}
{%- if loop.last and add_generation_prompt -%}{{ '<|assistant|>\n' }}{%- endif -%}
{%- endfor -%}
"""

_CORPUS = [
    "You are a helpful assistant. The quick brown fox jumps over the lazy dog, and the dog sleeps on.",
    "system user assistant model [INST] [/INST] <<SYS>> <</SYS>> \n\n Hello there! How are you today? I am fine.",
    "    def add(a, b):\n        return a + b\n\n1234567890 Where do I start? Café, naïve, 東京, <b>&amp;</b> \t |",
]


def byte_level(
    template: str | None = SMOLLM2,
    special: Sequence[str | AddedToken] = ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *,
    added: Sequence[str | AddedToken] = (),
    bos: str | None = "<|im_start|>",
    eos: str | None = "<|im_end|>",
    unk: str | None = "<|endoftext|>",
    adds_bos: bool = False,
    add_prefix_space: bool = False,
) -> PreTrainedTokenizerFast:
    """A byte-level BPE, as GPT-2, SmolLM2, Qwen and Llama 3 have one. `added` are added tokens not flagged special."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    core.train_from_iterator(_CORPUS, trainer)
    return _wrap(core, template, special, added, bos, eos, unk, adds_bos)


def sentencepiece(
    template: str | None = LLAMA2,
    special: Sequence[str | AddedToken] = ("<unk>", "<s>", "</s>"),
    *,
    added: Sequence[str | AddedToken] = (),
    bos: str | None = "<s>",
    eos: str | None = "</s>",
    unk: str | None = "<unk>",
    adds_bos: bool = True,
    dummy: str = "first",
    model: str = "bpe",
) -> PreTrainedTokenizerFast:
    """A SentencePiece tokenizer as transformers converts one; white space is U+2581 in its vocabulary.

    `dummy`: where the dummy space goes. "first", "always" and "never" are Metaspace's (Llama today: "first"), "prepend"
    is the normalizer of older conversions (Llama's legacy: behind each special token), "replace" is Gemma's (none).
    `model`: "bpe", or "unigram" with the special tokens in its vocabulary as pieces (T5, XLM-R).
    """
    names = [str(token) for token in special]
    if model == "bpe":
        core = Tokenizer(_sentencepiece_bpe(names, unk))
    else:
        letters = sorted(set("".join(_CORPUS).replace(" ", "▁")) | set("▁</>"))
        words = sorted({f"▁{word}" for line in _CORPUS for word in line.split() if word.isalpha()})
        pieces = [(name, 0.0) for name in names] + [(c, -8.0) for c in letters] + [(word, -9.0) for word in words]
        core = Tokenizer(models.Unigram(pieces, unk_id=names.index(str(unk))))
    spaced = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence(spaced if dummy in ("never", "replace") else [*spaced, decoders.Strip(" ", 1, 0)])
    if dummy in ("prepend", "replace"):
        space = [normalizers.Replace(" ", "▁")]
        core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), *space] if dummy == "prepend" else space)
    else:
        core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=dummy, split=False)
    return _wrap(core, template, special, added, bos, eos, unk, adds_bos)


def _sentencepiece_bpe(special: Sequence[str], unk: str | None) -> models.BPE:
    """As Llama's: special tokens, the 256 byte tokens, then pieces."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    alphabet = [*map(chr, range(0x21, 0x7F)), "▁", "\n", "\t"]
    core.train_from_iterator(
        _CORPUS, trainers.BpeTrainer(vocab_size=260, initial_alphabet=alphabet, show_progress=False)
    )
    trained = json.loads(core.to_str())["model"]
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *trained["vocab"]]
    merges = [(left, right) for left, right in trained["merges"]]
    vocab = {piece: id for id, piece in enumerate(pieces)}
    return models.BPE(vocab=vocab, merges=merges, unk_token=unk, fuse_unk=True, byte_fallback=True)


def _wrap(
    core: Tokenizer,
    template: str | None,
    special: Sequence[str | AddedToken],
    added: Sequence[str | AddedToken],
    bos: str | None,
    eos: str | None,
    unk: str | None,
    adds_bos: bool,
) -> PreTrainedTokenizerFast:
    core.add_special_tokens([AddedToken(t, normalized=False) if isinstance(t, str) else t for t in special])
    core.add_tokens([AddedToken(t, normalized=False) if isinstance(t, str) else t for t in added])
    if adds_bos:
        core.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(str(bos), core.token_to_id(str(bos)))]
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        clean_up_tokenization_spaces=False,
        bos_token=bos,
        eos_token=eos,
        unk_token=unk,
        pad_token=eos,
    )
    tokenizer.chat_template = template
    return tokenizer


_GEMMA_SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")

PUBLISHED: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "smollm2": byte_level,
    "qwen2.5": lambda: byte_level(
        QWEN25, ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), bos=None, unk=None, eos="<|im_end|>"
    ),
    "llama2": sentencepiece,
    "llama2-legacy": lambda: sentencepiece(dummy="prepend"),
    "gemma": lambda: sentencepiece(
        GEMMA, _GEMMA_SPECIAL, added=("\n\n", "\n\n\n"), bos="<bos>", eos="<eos>", dummy="replace"
    ),
    "zephyr": lambda: sentencepiece(ZEPHYR, adds_bos=False, dummy="always", model="unigram"),
}
"""Tokenizers in the manner of published models: kind of tokenizer, special tokens, template, who writes BOS. Only
Zephyr's template stands on another kind than its own (T5's: Unigram, a dummy space behind each special token), so that
the six differ."""


@cache
def published(name: str) -> PreTrainedTokenizerFast:
    """One of `PUBLISHED`, made once. Not to be changed by a test."""
    return PUBLISHED[name]()
