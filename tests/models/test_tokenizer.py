from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from promptcache.errors import RequestError, TurnError, UnsupportedModelError
from promptcache.layout.text.tokenizer import Piece
from promptcache.models.loading import LoadedModel
from promptcache.models.tokenizer import HFTokenizer
from tests.tokenizers import GEMMA, LLAMA2, PUBLISHED, SMOLLM2, ZEPHYR, byte_level, published, sentencepiece

NAMES = sorted(PUBLISHED)
SPM = ("<unk>", "<s>", "</s>")
DUMMIES = ("first", "always", "never", "prepend", "replace")
TEXTS = (
    "Hello there!",
    " Hello",
    "Hello ",
    "\n\nHow are\nyou?",
    "dog",
    "  two  spaces ",
    "Café 東京 🙂",
    "\t",
    " ",
    "a\n\nb",
)

KINDS = {
    **{f"bpe-{dummy}": (lambda d=dummy: sentencepiece(dummy=d)) for dummy in DUMMIES},
    **{f"unigram-{dummy}": (lambda d=dummy: sentencepiece(dummy=d, model="unigram")) for dummy in DUMMIES},
    "byte-level": byte_level,
    "byte-level-prefix-space": lambda: byte_level(add_prefix_space=True),
}


def adapter(name: str) -> HFTokenizer:
    return HFTokenizer(published(name))


def one_pass(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def ids_of(tokenizer: HFTokenizer, pieces: tuple[Piece, ...]) -> list[int]:
    """Pieces of a whole prompt to ids, as the layout does it."""
    ids: list[int] = []
    behind, start = None, True
    for piece in pieces:
        if isinstance(piece, int):
            ids, behind = [*ids, piece], piece
        else:
            ids, behind = [*ids, *tokenizer.encode(piece, behind=behind, start=start)], None
        start = False
    return ids


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_give_the_ids_of_the_whole_text(kind: str) -> None:
    wrapped = KINDS[kind]()
    tokenizer = HFTokenizer(wrapped)
    special = sorted(tokenizer.special_ids - {wrapped.unk_token_id})
    for first, second, opened in itertools.product(TEXTS, TEXTS, (True, False)):
        pieces: tuple[Piece, ...] = (special[0], first, special[1], second, special[0])
        pieces = pieces if opened else pieces[1:]
        whole = "".join(wrapped.convert_ids_to_tokens(p) if isinstance(p, int) else p for p in pieces)
        assert ids_of(tokenizer, pieces) == one_pass(wrapped, whole), whole
        assert tokenizer.split(whole) == pieces


@pytest.mark.parametrize("kind", KINDS)
def test_text_behind_text_has_no_dummy_space(kind: str) -> None:
    wrapped = KINDS[kind]()
    tokenizer = HFTokenizer(wrapped)
    for word in ("fox", "dog!", "you?"):
        inner = tokenizer.encode(word, behind=None, start=False)
        assert "".join(wrapped.convert_ids_to_tokens(inner)) == tokenizer.decode(inner) == word


def test_kinds_put_the_dummy_space_where_they_do() -> None:
    """What each kind is known for, in literals, so that the two tests above cannot agree on something else."""
    expected = {"first": (True, False), "always": (True, True), "prepend": (True, True)}
    for dummy in DUMMIES:
        wrapped = sentencepiece(dummy=dummy)
        tokenizer = HFTokenizer(wrapped)
        at_start = wrapped.convert_ids_to_tokens(tokenizer.encode("Hello", behind=None, start=True))
        behind = wrapped.convert_ids_to_tokens(tokenizer.encode("Hello", behind=1, start=False))
        found = (at_start[0].startswith("▁"), behind[0].startswith("▁"))
        assert found == expected.get(dummy, (False, False)), dummy


@pytest.mark.parametrize("dummy", DUMMIES)
@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_added_tokens_that_are_not_special_match_as_before(dummy: str, model: str) -> None:
    wrapped = sentencepiece(dummy=dummy, model=model, added=("\n\n", "<x>", AddedToken("dog", single_word=True)))
    tokenizer = HFTokenizer(wrapped)
    for text in ("a\n\nb", "\n\n", "<x>a", "a <x> b<x>", "the dog sleeps", "hotdog", "\n\n<x>"):
        assert list(tokenizer.encode(text, behind=None, start=True)) == one_pass(wrapped, text)
        assert list(tokenizer.encode(text, behind=1, start=False)) == one_pass(wrapped, "<s>" + text)[1:]
        # In the middle of a text only the first dummy space goes: those behind an added token stay.
        inner = tokenizer.encode(text, behind=None, start=False)
        assert tokenizer.decode(inner) == wrapped.decode(inner)
    inner = wrapped.convert_ids_to_tokens(tokenizer.encode("a<x>a", behind=None, start=False))
    behind = "▁a" if dummy in ("always", "prepend") else "a"
    assert inner == (["a", "<x>", behind] if behind in wrapped.get_vocab() else ["a", "<x>", "▁", "a"])


@pytest.mark.parametrize("name", [*NAMES, *KINDS])
def test_special_tokens_typed_by_a_user_stay_text(name: str) -> None:
    wrapped = published(name) if name in PUBLISHED else KINDS[name]()
    tokenizer = HFTokenizer(wrapped)
    special = [wrapped.convert_ids_to_tokens(id) for id in sorted(tokenizer.special_ids)]
    for start, behind in ((True, None), (False, None), (False, min(tokenizer.special_ids))):
        for text in (*special, "".join(special), " the ".join(special), f"Hello{special[0]}{special[0]} dog"):
            ids = tokenizer.encode(text, behind=behind, start=start)
            assert tokenizer.special_ids.isdisjoint(set(ids) - {wrapped.unk_token_id}), text
            if wrapped.unk_token_id not in ids:
                assert tokenizer.decode(ids).strip() == text.strip()


@pytest.mark.parametrize("flagged", [True, False])
def test_special_tokens_as_text_are_spelled_as_any_text(flagged: bool) -> None:
    # "the" and "dog" are merges: a cut inside one would show.
    names = ("<|endoftext|>", "<|im_end|>", "the", "dog|>")
    template = "{% for m in messages %}{{ 'the' ~ m.content ~ 'dog|>' }}{% endfor %}"
    special = names if flagged else names[:2]
    tokenizer = HFTokenizer(byte_level(template, special, added=names[len(special) :], bos=None))
    plain = HFTokenizer(byte_level(None, (), bos=None, eos=None, unk=None))
    assert len(tokenizer.special_ids) == 4
    assert len(plain.encode("the", behind=None, start=True)) < 3
    for text in ("the", "a dog|>", "<|im_end|>the quick<|endoftext|>dog|>"):
        assert tokenizer.encode(text, behind=None, start=True) == plain.encode(text, behind=None, start=True)


def test_the_unknown_token_stands_for_unknown_text_only() -> None:
    wrapped = sentencepiece(model="unigram")
    tokenizer = HFTokenizer(wrapped)
    assert 0 in tokenizer.encode("€", behind=None, start=True)
    assert 0 not in tokenizer.encode("<unk>", behind=None, start=True)
    assert tokenizer.split("€<s>") == ("€", 1)


def test_byte_tokens_are_text_even_if_flagged_special() -> None:
    wrapped = sentencepiece()
    wrapped.backend_tokenizer.add_special_tokens(["<0xE8>"])
    tokenizer = HFTokenizer(wrapped)
    assert wrapped.convert_tokens_to_ids("<0xE8>") in tokenizer.encode("語", behind=None, start=True)
    assert wrapped.convert_tokens_to_ids("<0xE8>") not in tokenizer.special_ids


def test_tokens_that_only_the_template_calls_special() -> None:
    """An added token that is not flagged, but that the template writes, belongs to the template."""
    wrapped = byte_level(special=("<|endoftext|>",), added=("<|im_start|>", "<|im_end|>", "<x>", "\n"), bos=None)
    tokenizer = HFTokenizer(wrapped)
    start, end = wrapped.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert {start, end} <= tokenizer.special_ids
    assert wrapped.convert_tokens_to_ids("<x>") not in tokenizer.special_ids
    assert wrapped.convert_tokens_to_ids("\n") not in tokenizer.special_ids
    assert end in tokenizer.eos_ids
    assert start not in tokenizer.encode("<|im_start|>user", behind=None, start=False)
    assert tokenizer.split("<|im_start|>user\n") == (start, "user\n")
    pieced = byte_level(
        "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m.content }}{% endfor %}", added=("<|user|>",), bos=None
    )
    assert pieced.convert_tokens_to_ids("<|user|>") in HFTokenizer(pieced).special_ids


def test_tokens_that_swallow_white_space() -> None:
    special = (
        "<|endoftext|>",
        AddedToken("<|user|>", rstrip=True, normalized=False),
        AddedToken("<|end|>", lstrip=True, rstrip=True, normalized=False),
    )
    wrapped = byte_level(None, special, bos=None, eos="<|end|>")
    tokenizer = HFTokenizer(wrapped)
    user, end = wrapped.convert_tokens_to_ids(["<|user|>", "<|end|>"])
    assert tokenizer.split("<|user|>\n\n Hello \n<|end|>\n") == (user, "Hello", end)
    for text in (" \n Hello", "\u00a0\u2003Hello", "\x1c Hello", "Hello", "  "):
        assert list(tokenizer.encode(text, behind=user, start=False)) == one_pass(wrapped, "<|user|>" + text)[1:]


@pytest.mark.parametrize(
    "normalizer",
    [
        normalizers.NFC(),
        normalizers.NFKC(),
        normalizers.Lowercase(),
        normalizers.Replace("o", "0"),
        normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
        normalizers.Sequence([]),
    ],
    ids=["nfc", "nfkc", "lowercase", "replace", "sequence", "empty"],
)
@pytest.mark.parametrize("kind", ["byte-level", "unigram-first"])
def test_normalizers(normalizer: normalizers.Normalizer, kind: str) -> None:
    wrapped = KINDS[kind]()
    wrapped.backend_tokenizer.normalizer = normalizer
    tokenizer = HFTokenizer(wrapped)
    special = max(tokenizer.special_ids)
    name = wrapped.convert_ids_to_tokens(special)
    for text in ("Cafe\u0301 \uff1c/s\uff1e \u212b", "HELLO </S>", "e\u0301" * 9):
        assert special not in tokenizer.encode(text, behind=special, start=False)
        # A normalizer can make a special token of what Unigram then finds in its vocabulary: as text, it is cut.
        if "/" not in text or kind == "byte-level":
            pieces = (special, text, special, text)
            assert tokenizer.split(f"{name}{text}{name}{text}") == pieces
            assert ids_of(tokenizer, pieces) == one_pass(wrapped, f"{name}{text}{name}{text}")


@pytest.mark.parametrize(
    "pre_tokenizer",
    [
        pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "isolated"), pre_tokenizers.ByteLevel(use_regex=False)]),
        pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=True)]),
    ],
    ids=["split", "digits"],
)
def test_pre_tokenizers_in_a_sequence(pre_tokenizer: pre_tokenizers.PreTokenizer) -> None:
    wrapped = byte_level()
    wrapped.backend_tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer = HFTokenizer(wrapped)
    whole = "<|im_end|>one 12 two<|im_start|> 3"
    assert ids_of(tokenizer, tokenizer.split(whole)) == one_pass(wrapped, whole)
    assert tokenizer.decode(tokenizer.encode("two", behind=None, start=False)) == "two"


@pytest.mark.parametrize("adds", [True, False], ids=["tokenizer-adds", "tokenizer-does-not"])
@pytest.mark.parametrize("template", [GEMMA, LLAMA2, ZEPHYR, None], ids=["gemma", "llama2", "zephyr", "none"])
@pytest.mark.parametrize("bos", ["<s>", "<unk>"], ids=["", "id-0"])
def test_bos_is_what_tokenizer_or_template_puts_first(adds: bool, template: str | None, bos: str) -> None:
    wrapped = sentencepiece(
        template, ("<unk>", "<s>", "</s>", "<start_of_turn>", "<end_of_turn>"), adds_bos=adds, bos=bos
    )
    expected = wrapped.bos_token_id if adds or template in (GEMMA, LLAMA2) else None
    assert HFTokenizer(wrapped).bos_id == expected


def test_a_role_marker_is_no_bos() -> None:
    assert published("smollm2").bos_token_id is not None
    assert adapter("smollm2").bos_id is None
    assert HFTokenizer(byte_level(adds_bos=True)).bos_id == published("smollm2").bos_token_id


def test_a_bos_that_the_template_spells_out() -> None:
    template = GEMMA.replace("bos_token", "'<bos>'")
    wrapped = sentencepiece(template, (*SPM, "<bos>", "<start_of_turn>", "<end_of_turn>"), bos="<bos>", adds_bos=False)
    assert HFTokenizer(wrapped).bos_id == wrapped.bos_token_id


def test_ends_of_a_reply() -> None:
    def ends(name: str) -> set[str]:
        return {published(name).convert_ids_to_tokens(id) for id in adapter(name).eos_ids}

    assert ends("smollm2") == ends("qwen2.5") == {"<|im_end|>"}
    assert ends("gemma") == {"<eos>", "<end_of_turn>"}
    assert ends("llama2") == ends("zephyr") == {"</s>"}
    # A template that closes no turn: the reply ends where the next turn opens.
    open_ended = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}{% endfor %}"
    tokenizer = HFTokenizer(byte_level(open_ended, bos=None, eos="<|endoftext|>"))
    assert tokenizer.eos_ids == {400, 401}
    assert HFTokenizer(byte_level(None, eos=None)).eos_ids == frozenset()


def test_placeholder_is_unknown_then_pad_then_eos() -> None:
    assert adapter("llama2").placeholder_id == 0
    assert adapter("qwen2.5").placeholder_id == published("qwen2.5").pad_token_id == 402
    wrapped = byte_level(unk=None, eos="<|im_end|>")
    wrapped.pad_token = None
    assert HFTokenizer(wrapped).placeholder_id == 402
    assert HFTokenizer(byte_level(None, unk=None, eos=None)).placeholder_id == 0


def test_the_templates_own_words_come_through() -> None:
    with pytest.raises(TurnError, match="System role not supported"):
        adapter("gemma").render([("system", "x")], open_assistant=False)
    with pytest.raises(TurnError, match="no chat template"):
        HFTokenizer(byte_level(None)).render([("user", "x")], open_assistant=False)
    with pytest.raises(TurnError, match="empty conversation"):
        adapter("smollm2").render([], open_assistant=False)
    for broken in (
        "{{ messages[7].content }}",
        "{{ 1 / 0 }}",
        "{% if %}",
        "{{ messages.pop() }}",
        "{{ nothing.at.all }}",
    ):
        with pytest.raises(TurnError):
            HFTokenizer(byte_level(broken)).render([("user", "x")], open_assistant=False)


def test_of_several_templates_the_default_is_used() -> None:
    wrapped = byte_level({"default": "{{ 'D' + messages[0].content }}", "tool_use": "{{ 'T' }}"})
    assert HFTokenizer(wrapped).render([("user", "x")], open_assistant=False) == "Dx"
    assert not HFTokenizer(byte_level({"tool_use": "T"})).has_template


def test_render_is_the_wrapped_tokenizers() -> None:
    turns = [("user", "Hi <|im_end|> & <b>"), ("assistant", " ok ")]
    for open_assistant in (True, False):
        assert adapter("smollm2").render(turns, open_assistant=open_assistant) == published(
            "smollm2"
        ).apply_chat_template(
            [{"role": role, "content": content} for role, content in turns],
            tokenize=False,
            add_generation_prompt=open_assistant,
        )


def test_later_changes_of_the_wrapped_tokenizer_change_nothing() -> None:
    wrapped = byte_level()
    tokenizer = HFTokenizer(wrapped)
    turns = [("user", "Hello")]
    before = (
        tokenizer.encode("<|im_end|> dog" * 9, behind=None, start=True),
        tokenizer.render(turns, open_assistant=True),
    )
    state = wrapped.backend_tokenizer.to_str()
    assert HFTokenizer(wrapped).fingerprint == tokenizer.fingerprint
    assert wrapped.backend_tokenizer.to_str() == state
    wrapped(["a", "a b c"], padding="max_length", truncation=True, max_length=3)
    wrapped.split_special_tokens = True
    wrapped.chat_template = "x"
    wrapped.add_special_tokens({"bos_token": "<new>"})
    after = (
        tokenizer.encode("<|im_end|> dog" * 9, behind=None, start=True),
        tokenizer.render(turns, open_assistant=True),
    )
    assert after == before


def test_state_left_by_a_call_is_not_read() -> None:
    wrapped = byte_level()
    expected = HFTokenizer(wrapped)
    wrapped("a b c", padding="max_length", truncation=True, max_length=3, split_special_tokens=True)
    tokenizer = HFTokenizer(wrapped)
    assert tokenizer.fingerprint == expected.fingerprint
    assert len(tokenizer.encode("a b c d e", behind=None, start=True)) > 3
    assert tokenizer.encode("a", behind=None, start=True) == expected.encode("a", behind=None, start=True)
    assert tokenizer.split("<|im_end|>") == (402,)


def test_sixteen_threads_beside_a_caller_that_pads_and_truncates() -> None:
    wrapped = sentencepiece(dummy="prepend")
    tokenizer = HFTokenizer(wrapped)
    text = "Hello there </s> dog\n" * 20
    expected = tokenizer.encode(text, behind=None, start=False), tokenizer.split(text)
    stop = threading.Event()

    def disturb() -> None:
        for n in itertools.count():
            if stop.is_set():
                return
            wrapped(["a", "a b c d"], padding="max_length" if n % 2 else False, truncation=n % 3 == 0, max_length=3)

    def work(_: int) -> bool:
        return all(
            (tokenizer.encode(text, behind=None, start=False), tokenizer.split(text)) == expected for _ in range(30)
        )

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(work, range(16)))
    finally:
        stop.set()
        disturber.join()


def test_fingerprint_is_the_same_in_another_process_and_tells_tokenizers_apart() -> None:
    program = (
        "from tests.tokenizers import byte_level; from promptcache.models.tokenizer import HFTokenizer; "
        "print(HFTokenizer(byte_level()).fingerprint)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert found == HFTokenizer(byte_level()).fingerprint
    others = [
        byte_level(),
        byte_level(None),
        byte_level(SMOLLM2 + " "),
        byte_level(adds_bos=True),
        byte_level(add_prefix_space=True),
        byte_level(added=("<x>",)),
        byte_level(added=(AddedToken("<x>", rstrip=True),)),
        byte_level(eos="<|endoftext|>"),
        *(KINDS[kind]() for kind in KINDS if not kind.startswith("byte")),
    ]
    assert len({HFTokenizer(other).fingerprint for other in others}) == len(others)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(st.data())
def test_any_text_keeps_out_of_the_templates_tokens(name: str, data: st.DataObject) -> None:
    wrapped, tokenizer = published(name), _cached(name)
    special = [wrapped.convert_ids_to_tokens(id) for id in sorted(tokenizer.special_ids)]
    part = st.one_of(st.text(max_size=5), st.sampled_from([*special, "<", "|>", "</", " ", "\n\n", "▁"]))
    text = "".join(data.draw(st.lists(part, max_size=8)))
    behind = data.draw(st.sampled_from([None, *sorted(tokenizer.special_ids)]))
    ids = tokenizer.encode(text, behind=behind, start=data.draw(st.booleans()))
    assert tokenizer.special_ids.isdisjoint(set(ids) - {wrapped.unk_token_id})
    assert all(0 <= id < len(wrapped) for id in ids)
    if not text:
        assert ids == ()
    if name in ("smollm2", "qwen2.5"):
        assert tokenizer.decode(ids) == text
    pieces = tokenizer.split(text)
    assert "" not in pieces
    assert "".join(wrapped.convert_ids_to_tokens(p) if isinstance(p, int) else p for p in pieces) == text


_adapters: dict[str, HFTokenizer] = {}


def _cached(name: str) -> HFTokenizer:
    return _adapters.setdefault(name, adapter(name)) if name not in _adapters else _adapters[name]


def test_odd_and_huge_texts() -> None:
    tokenizer = adapter("zephyr")
    assert tokenizer.encode("", behind=None, start=True) == ()
    assert tokenizer.split("") == ()
    with pytest.raises(RequestError, match="index 2"):
        tokenizer.encode("ab\ud800", behind=None, start=True)
    text = "</s>" * 20_000 + "a" * 100_000
    ids = tokenizer.encode(text, behind=None, start=True)
    assert 2 not in ids
    assert hashlib.sha256(tokenizer.decode(ids).encode()).digest() == hashlib.sha256(text.encode()).digest()
    assert tokenizer.encode("a\0b", behind=None, start=True)


def test_a_special_token_of_one_character_cannot_be_text() -> None:
    tokenizer = HFTokenizer(sentencepiece(None, ("<unk>", "<s>", "</s>", "$"), model="unigram"))
    with pytest.raises(RequestError, match=r"'\$' as text"):
        tokenizer.encode("5 $", behind=None, start=True)


@pytest.mark.model
def test_the_default_model(real_engine_model: LoadedModel) -> None:
    wrapped = real_engine_model.tokenizer
    tokenizer = HFTokenizer(wrapped)
    assert wrapped.convert_ids_to_tokens(sorted(tokenizer.eos_ids)) == ["<|im_end|>"]
    assert (tokenizer.bos_id, tokenizer.placeholder_id) == (None, wrapped.unk_token_id)
    assert tokenizer.special_ids == frozenset(wrapped.all_special_ids) | frozenset(wrapped.added_tokens_decoder)
    text = "".join(wrapped.get_added_vocab()) + " def f(x):\n    return 'naïve 東京 🙂'\n\n"
    for start in (True, False):
        ids = tokenizer.encode(text, behind=None, start=start)
        assert tokenizer.special_ids.isdisjoint(ids)
        assert tokenizer.decode(ids) == text
    whole = "<|im_start|>user\nHello, naïve 東京 🙂!<|im_end|>\n"
    assert ids_of(tokenizer, tokenizer.split(whole)) == one_pass(wrapped, whole)


def test_what_cannot_be_read_is_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(UnsupportedModelError, match="not a fast tokenizer"):
        HFTokenizer(Slow())  # type: ignore[arg-type]

    class Custom:
        def pre_tokenize(self, pretok: object) -> None: ...

    wrapped = byte_level()
    wrapped.backend_tokenizer.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(Custom())
    with pytest.raises(UnsupportedModelError, match="cannot be read"):
        HFTokenizer(wrapped)


@pytest.mark.parametrize("name", PUBLISHED)
def test_many_texts_at_once_are_each_as_alone(name):
    tokenizer = HFTokenizer(published(name))
    texts = ["Hello there", " a b", "", "<|im_end|></s>", "tab\there", "\n\nx", "é 日本"]
    for start in (True, False):
        for behind in (None, *sorted(tokenizer.special_ids)[:2]):
            alone = [tokenizer.encode(text, behind=behind, start=start) for text in texts]
            assert tokenizer.encode_all(texts, behind=behind, start=start) == alone
            assert tokenizer.encode_all(texts[:2], behind=behind, start=start) == alone[:2]
