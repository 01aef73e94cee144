"""Trains a small BERT to answer questions about passages that are made up here; some questions have no answer.

Names are made of syllables, so that an answer cannot be learnt by heart: the model has to find it in the passage. The
passages that it is scored on use names that were never seen.
"""

import itertools
import json
import random
from collections.abc import Callable

import torch
from recipe import DEVICE, WEIGHTS, keep, train
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForQuestionAnswering, PreTrainedTokenizerFast

LENGTH = 128
ONSETS, VOWELS, CODAS = (
    [
        "b",
        "br",
        "c",
        "ch",
        "d",
        "dr",
        "f",
        "g",
        "gr",
        "h",
        "j",
        "k",
        "l",
        "m",
        "n",
        "p",
        "r",
        "s",
        "sh",
        "st",
        "t",
        "tr",
        "v",
        "w",
        "z",
    ],
    ["a", "e", "i", "o", "u", "ai", "ea"],
    ["n", "l", "r", "s", "m", "th", "rd", "lle", "na", "ra"],
)
JOBS = [
    "teacher",
    "doctor",
    "baker",
    "painter",
    "farmer",
    "nurse",
    "pilot",
    "lawyer",
    "singer",
    "writer",
    "engineer",
    "gardener",
    "tailor",
    "sailor",
    "chemist",
]
COLOURS = ["red", "green", "blue", "yellow", "white", "black", "brown", "grey", "orange", "purple"]
THINGS = ["bicycle", "house", "boat", "car", "piano", "garden", "hat", "coat", "lamp", "violin", "telescope", "camera"]
ANIMALS = ["dog", "cat", "horse", "parrot", "rabbit", "goat", "turtle", "hen", "donkey", "mouse"]
FOODS = ["apples", "soup", "bread", "rice", "cheese", "fish", "noodles", "cake", "honey", "plums"]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def name(words: random.Random) -> str:
    parts = [words.choice(ONSETS) + words.choice(VOWELS) for _ in range(words.randint(1, 2))]
    return ("".join(parts) + words.choice(CODAS)).capitalize()


Fact = tuple[str, str, list[str]]
"""A sentence, the answer in it, and questions that it answers."""


def facts(words: random.Random, who: str) -> list[Fact]:
    pick = words.choice
    place, friend, year = name(words), name(words), str(words.randint(1700, 2020))
    job, colour, thing, animal, food, month, number = (
        pick(JOBS), pick(COLOURS), pick(THINGS), pick(ANIMALS), pick(FOODS), pick(MONTHS), str(words.randint(2, 90)),
    )  # fmt: skip
    named = name(words)
    return [
        (pick([f"{who} lives in {place}.", f"{who} has a home in {place}."]), place, [f"Where does {who} live?", f"In which town does {who} live?"]),
        (f"{who} was born in {year}.", year, [f"When was {who} born?", f"In which year was {who} born?"]),
        (pick([f"{who} works as a {job}.", f"{who} is a {job}."]), job, [f"What does {who} do for work?", f"What is the job of {who}?"]),
        (f"{who} has a {colour} {thing}.", colour, [f"What colour is the {thing} of {who}?"]),
        (f"The {animal} of {who} is called {named}.", named, [f"What is the {animal} of {who} called?", f"What is the name of the {animal}?"]),
        (pick([f"{who} likes {food}.", f"{who} loves to eat {food}."]), food, [f"What does {who} like?", f"What does {who} like to eat?"]),
        (f"In {month}, {who} visited {friend}.", friend, [f"Who did {who} visit?", f"Whom did {who} visit?"]),
        (f"{who} moved there in {month}.", month, [f"In which month did {who} move?", f"When did {who} move there?"]),
        (f"{who} owns {number} books.", number, [f"How many books does {who} own?", f"How many books does {who} have?"]),
        (f"{who} studied in {place}.", place, [f"Where did {who} study?"]),
        (f"The sister of {who} is {friend}.", friend, [f"Who is the sister of {who}?"]),
        (f"{who} married {friend} in {year}.", friend, [f"Who did {who} marry?", f"Whom did {who} marry?"]),
        (f"The capital of {place} is {named}.", named, [f"What is the capital of {place}?"]),
        (f"The river {named} flows through {place}.", named, [f"Which river flows through {place}?", f"What river flows through {place}?"]),
        (f"{place} has {number} bridges.", number, [f"How many bridges does {place} have?"]),
        (f"{friend} built the {thing} in {year}.", friend, [f"Who built the {thing}?"]),
    ]  # fmt: skip


def example(words: random.Random) -> tuple[str, str, int, int]:
    """Passage, question, and the answer's place in the passage; -1 where it is not there."""
    people = [name(words) for _ in range(words.randint(1, 3))]
    told: list[Fact] = []
    for who in people:
        told += words.sample(facts(words, who), words.randint(2, 4))
    words.shuffle(told)
    chosen = words.randrange(len(told))
    if words.random() < 0.15 and len(told) > 2:
        missing = told.pop(chosen)
        questions = {q for _, _, qs in told for q in qs}
        question = words.choice(missing[2])
        if question not in questions and missing[1] not in " ".join(s for s, _, _ in told):
            return " ".join(s for s, _, _ in told), question, -1, -1
        chosen = words.randrange(len(told))
    sentence, answer, questions = told[chosen]
    others = [q for k, (_, _, qs) in enumerate(told) if k != chosen for q in qs]
    clear = [q for q in questions if q not in others] or questions
    before = "".join(s + " " for s, _, _ in told[:chosen])
    start = len(before) + sentence.rindex(answer)
    return " ".join(s for s, _, _ in told), words.choice(clear), start, start + len(answer)


def made(seed: int, count: int) -> list[tuple[str, str, int, int]]:
    words = random.Random(seed)
    return [example(words) for _ in range(count)]


def wordpiece(texts: Callable[[], "itertools.chain[str]"]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(texts(), trainers.WordPieceTrainer(vocab_size=1500, special_tokens=special))
    cls, sep = (("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]")))
    tokenizer.post_processor = processors.BertProcessing(sep, cls)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


def encoded(tokenizer: PreTrainedTokenizerFast, rows: list[tuple[str, str, int, int]]) -> dict[str, torch.Tensor]:
    questions, passages = [r[1] for r in rows], [r[0] for r in rows]
    batch = tokenizer(
        questions, passages, padding="max_length", truncation="only_second", max_length=LENGTH, return_tensors="pt"
    )
    places = []
    for index, (_, _, start, end) in enumerate(rows):
        first = batch.char_to_token(index, start, sequence_index=1) if start >= 0 else None
        last = batch.char_to_token(index, end - 1, sequence_index=1) if start >= 0 else None
        places.append((first, last) if first is not None and last is not None else (0, 0))
    return {**batch, "start_positions": torch.tensor(places)[:, 0], "end_positions": torch.tensor(places)[:, 1]}


torch.manual_seed(0)
rows = made(1, 150_000)
tokenizer = wordpiece(lambda: itertools.chain.from_iterable((r[0], r[1]) for r in rows[:20_000]))
config = BertConfig(
    vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512,
    max_position_embeddings=512, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip
model = BertForQuestionAnswering(config)
data = {key: value.to(DEVICE) for key, value in encoded(tokenizer, rows).items()}


def batch_loss(step: int) -> torch.Tensor:
    batch = torch.randint(len(rows), (256,), device=DEVICE)
    part = {key: value[batch] for key, value in data.items()}
    # positions beyond the first 128 are trained by shifting: the app may pad to 384
    shift = random.randrange(0, 384 - LENGTH)
    positions = torch.arange(LENGTH, device=DEVICE)[None] + (shift if step % 2 else 0)
    return model(**part, position_ids=positions).loss


random.seed(0)
train(model, batch_loss, steps=9000, peak=1e-3)
unseen = made(2, 2_000)
test = encoded(tokenizer, unseen)
right = 0
with torch.no_grad():
    for k in range(0, len(unseen), 250):
        part = {key: value[k : k + 250] for key, value in test.items()}
        out = model(part["input_ids"], attention_mask=part["attention_mask"], token_type_ids=part["token_type_ids"])
        found = torch.stack([out.start_logits.argmax(1), out.end_logits.argmax(1)], 1)
        truth = torch.stack([part["start_positions"], part["end_positions"]], 1)
        right += int((found == truth).all(1).sum())
keep("answers", model, {
    "score": "exact answers to 2,000 questions about passages with unseen names", "value": right / len(unseen),
    "data": "passages made up by training/answers.py",
})  # fmt: skip
tokenizer.save_pretrained(WEIGHTS / "answers")
(WEIGHTS / "answers/samples.json").write_text(
    json.dumps([{"context": r[0], "question": r[1]} for r in unseen[:5]], indent=2)
)
