"""Trains a small BERT to answer questions about a passage, or to say that the passage does not answer them.

    python training/answers.py --seconds 120 --out weights
    python training/answers.py --calibrate            # the shipped weights: how sure they must be, found anew

The passages are made up by `questions.py`. How sure the model must be, and what speaks for an answer beside its logits,
is fitted to questions that a person wrote: `real_questions.json`, `everyday_questions.json`, `more_questions.json`.
`held_out_questions.json` was written after all choices were made and is only ever scored; the page's score is of it.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import random
import sys
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import torch
from questions import Row, made
from recipe import DEVICE, WEIGHTS, keep, train
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForQuestionAnswering, PreTrainedTokenizerFast

from proveout.app.evidence import EVIDENCE, evidence
from proveout.app.spans import Calibration, Read, best_answer
from proveout.app.tasks import TASKS
from proveout.app.weights import SHIPPED, load

HERE = Path(__file__).parent
LENGTH, VOCABULARY, MOST_POSITIONS = 192, 6000, 512
CALIBRATION = ("real_questions", "everyday_questions", "more_questions")
HELD_OUT = "held_out_questions"
THRESHOLD = 0.8
"""From 0.5 to 0.8 in tenths: the first at which, with passages that were left out of the fit, nine of ten answers or
more were right or "I don't know"."""
PRIOR, PRIOR_TEMPERATURE = 0.003, 3.3
"""How strongly the fit is held near no evidence, and the temperature there."""


def wordpiece(texts: "itertools.chain[str]") -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    signs = [chr(code) for code in range(33, 127)] + list("–—’‘“”°€£éèüöäßçñ")
    trainer = trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=signs)
    tokenizer.train_from_iterator(texts, trainer)
    cls, sep = (("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]")))
    tokenizer.post_processor = processors.BertProcessing(sep, cls)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip


def encoded(tokenizer: PreTrainedTokenizerFast, rows: list[Row]) -> dict[str, torch.Tensor]:
    questions, passages = [r[1] for r in rows], [r[0] for r in rows]
    batch = tokenizer(
        questions, passages, padding="max_length", truncation="only_second", max_length=LENGTH, return_tensors="pt"
    )
    places = []
    for index, (_, _, start, end) in enumerate(rows):
        first = batch.char_to_token(index, start, sequence_index=1) if start >= 0 else None
        last = batch.char_to_token(index, end - 1, sequence_index=1) if start >= 0 else None
        places.append((first, last) if first is not None and last is not None else (0, 0))
    ends = torch.tensor(places)
    return {**{k: v.short() for k, v in batch.items()}, "start_positions": ends[:, 0], "end_positions": ends[:, 1]}


def items_of(name: str) -> list[dict]:
    items: list[dict] = json.loads((HERE / f"{name}.json").read_text())
    return items


def read_by(model: BertForQuestionAnswering, tokenizer: PreTrainedTokenizerFast, passage: str, question: str) -> Read:
    batch = tokenizer(
        question, passage, truncation="only_second", max_length=LENGTH, return_offsets_mapping=True, return_tensors="pt"
    )
    offsets = batch.pop("offset_mapping")[0].tolist()
    inside = [part == 1 for part in batch.sequence_ids(0)]
    with torch.no_grad():
        out = model(**batch)
    return Read(passage, question, out.start_logits[0], out.end_logits[0], offsets, inside)


@dataclass(frozen=True)
class Weighed:
    """A question's candidates as the fit sees them: rows of logit and evidence, and which of them are right."""

    rows: torch.Tensor
    none: float
    right: list[int]


def weighed(read: Read, wanted: list[str]) -> Weighed:
    candidates = read.candidates()
    rows = [[logit, *evidence(read.passage, read.question, span)] for span, logit in candidates.items()]
    right = [n for n, span in enumerate(candidates) if is_right(read.passage, span, *wanted)]
    return Weighed(torch.tensor(rows), read.none, right or [len(rows)])


def calibrated(model: BertForQuestionAnswering, tokenizer: PreTrainedTokenizerFast, items: list[dict]) -> Calibration:
    """The temperature, the bias of no answer and the weights of evidence that make right answers most likely."""
    questions = [
        weighed(read_by(model, tokenizer, item["passage"], question), wanted)
        for item in items
        for question, *wanted in item["questions"]
    ]
    begin = torch.tensor([1 / PRIOR_TEMPERATURE, *[0.0] * len(EVIDENCE), 0.0])
    scale = torch.tensor([10.0, *[1.0] * (len(EVIDENCE) + 1)])  # a logit is ten times as large as evidence
    values = begin.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([values], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        total = PRIOR * ((values - begin) * scale).square().sum()
        for one in questions:
            logits = torch.cat([one.rows @ values[:-1], (one.none * values[0] + values[-1])[None]])
            total = total - torch.logsumexp(logits.log_softmax(0)[one.right], 0) / len(questions)
        total.backward()
        return total

    optimizer.step(loss)
    inverse, *weights, none = values.detach().tolist()
    return Calibration(
        round(1 / inverse, 3), THRESHOLD, round(none, 3), {n: round(w, 3) for n, w in zip(EVIDENCE, weights)}
    )


def is_right(passage: str, span: tuple[int, int] | None, *wanted: str) -> bool:
    """Whether an answer is one of those wanted, with or without small words around it."""
    if span is None:
        return False
    said = plain(passage[span[0] : span[1]])
    return any(w and (said == plain(w)) for w in wanted)


def plain(text: str) -> str:
    words = text.lower().strip(" .,;:!?\"'()").split()
    while words and words[0] in ("the", "a", "an", "about", "in", "on", "at", "of", "by", "to", "nearly", "around"):
        words = words[1:]
    return " ".join(words)


def score(
    model: BertForQuestionAnswering,
    tokenizer: PreTrainedTokenizerFast,
    calibration: Calibration,
    items: list[dict],
    verbose: bool = False,
) -> dict[str, int]:
    """Of the real questions, how many are answered right, wrong, or not."""
    counts = {"right": 0, "abstained": 0, "wrong": 0, "all": 0, "answerable": 0, "answered": 0}
    for item in items:
        for question, *wanted in item["questions"]:
            answer = best_answer(read_by(model, tokenizer, item["passage"], question), calibration)
            said = item["passage"][slice(*answer.span)] if answer.span else "I don't know"
            if answer.span is None:
                verdict = "abstained" if wanted else "right"
            else:
                verdict = "right" if is_right(item["passage"], answer.span, *wanted) else "wrong"
            counts[verdict] += 1
            counts["all"] += 1
            counts["answerable"] += bool(wanted)
            counts["answered"] += bool(wanted) and verdict == "right"
            if verbose:
                print(f"  {verdict:9} {answer.confidence:.2f} {question} -> {said} (wanted {wanted or 'no answer'})")
    return counts


def left_out(model: BertForQuestionAnswering, tokenizer: PreTrainedTokenizerFast, items: list[dict]) -> None:
    """What each threshold would give: every passage is scored by a fit that did not see it."""
    parts = 8
    fits = [
        calibrated(model, tokenizer, [i for n, i in enumerate(items) if n % parts != part]) for part in range(parts)
    ]
    for threshold in (0.5, 0.6, 0.7, 0.8, 0.9):
        counts = Counter[str]()
        for part, found in enumerate(fits):
            counts.update(score(model, tokenizer, replace(found, threshold=threshold), items[part::parts]))
        print(threshold, dict(counts), flush=True)


def described(model: BertForQuestionAnswering, tokenizer: PreTrainedTokenizerFast) -> dict:
    """How sure the model must be, and what the page says of it."""
    items = [item for name in CALIBRATION for item in items_of(name)]
    left_out(model, tokenizer, items)
    calibration = calibrated(model, tokenizer, items)
    held_out = score(model, tokenizer, calibration, items_of(HELD_OUT), verbose=True)
    print(calibration, held_out)
    return {
        "score": f"right on {held_out['right']} of {held_out['all']} unseen questions; "
        f'{held_out["abstained"]} times "I don\'t know", {held_out["wrong"]} wrong',
        "value": held_out["right"] / held_out["all"],
        "data": "passages made up by training/questions.py",
        "knows": "It knows no facts: it looks for the answer in your passage. It is small: where the wording is new to "
        "it, it says that it does not know. It is best at who, when, how many and how long, in short passages of plain "
        "English.",
        **asdict(calibration),
        "held_out": held_out,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="of training")
    parser.add_argument("--rows", type=int, default=400_000, help="passages to train on")
    parser.add_argument("--calibrate", action="store_true", help="train nothing: calibrate the shipped weights")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="a folder `answers` is written below it")
    options = parser.parse_args()
    if options.calibrate:
        calibrate_shipped()
        return
    torch.manual_seed(0)
    random.seed(0)
    workers = min(32, os.cpu_count() or 1)
    shares = [(seed, options.rows // workers) for seed in range(10, 10 + workers)]
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        rows = [row for share in pool.starmap(made, shares) for row in share]
    print(f"{len(rows)} passages", flush=True)
    tokenizer = wordpiece(itertools.chain.from_iterable((r[0], r[1]) for r in rows[:40_000]))
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=192, num_hidden_layers=4, num_attention_heads=6, intermediate_size=768,
        max_position_embeddings=MOST_POSITIONS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForQuestionAnswering(config)
    parts = [encoded(tokenizer, rows[k : k + 20_000]) for k in range(0, len(rows), 20_000)]
    data = {key: torch.cat([part[key] for part in parts]).to(DEVICE) for key in parts[0]}
    print("encoded", flush=True)
    size = 512 if DEVICE == "cuda" else 32

    def batch_loss(step: int) -> torch.Tensor:
        batch = torch.randint(len(data["input_ids"]), (size,), device=DEVICE)
        part = {key: value[batch].long() for key, value in data.items()}
        longest = int(part["attention_mask"].sum(1).max())
        part = {key: value[:, :longest] if value.ndim == 2 else value for key, value in part.items()}
        # Words of one sentence are hidden now and then: one has to make do with the others.
        hidden = (torch.rand(part["input_ids"].shape, device=DEVICE) < 0.03) & (part["input_ids"] > 4)
        part["input_ids"] = part["input_ids"].masked_fill(hidden, tokenizer.mask_token_id)
        # Positions beyond the first ones are trained by shifting: the app may use all of them.
        shift = random.randrange(0, MOST_POSITIONS - longest) if step % 2 else 0
        positions = torch.arange(longest, device=DEVICE)[None] + shift
        loss: torch.Tensor = model(**part, position_ids=positions).loss
        return loss

    train(model, batch_loss, steps=0, peak=1e-3, seconds=options.seconds)
    place = keep("answers", model, described(model, tokenizer), options.out)
    tokenizer.save_pretrained(place)
    samples = [{"context": i["passage"], "question": i["questions"][0][0]} for i in items_of(CALIBRATION[0])]
    (place / "samples.json").write_text(json.dumps(samples[:6], indent=2, ensure_ascii=False) + "\n")


def calibrate_shipped() -> None:
    """Find anew how sure the shipped weights must be, and write what the page says of them."""
    loaded = load(TASKS["answers"], "small", None)
    path = SHIPPED / "answers" / "score.json"
    known = described(loaded.model.eval(), loaded.tokenizer)
    parameters = json.loads(path.read_text())["parameters"]
    path.write_text(json.dumps({**known, "parameters": parameters}, indent=2) + "\n")


if __name__ == "__main__":
    main()
