"""Trains a small BERT to answer questions about a passage, or to say that the passage does not answer them.

    python training/answers.py --seconds 120 --out weights

The passages are made up by `questions.py`. `real_questions.json` has questions of a person about real things: the first
twelve passages decide how sure the model must be before it answers, the others are only ever scored.
`everyday_questions.json` was written after all choices were made; the page's score is of it.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import torch
from questions import Row, made
from recipe import DEVICE, WEIGHTS, keep, train
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForQuestionAnswering, PreTrainedTokenizerFast

from proveout.app.spans import Calibration, best_answer

HERE = Path(__file__).parent
LENGTH, VOCABULARY, MOST_POSITIONS = 192, 6000, 512
PRECISION = 0.95
"""Of the questions for calibration, at least so many are answered right or not at all."""
FOR_CALIBRATION = 12
"""Passages of `real_questions.json`, from the first on; the others are only scored."""


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


def logits_of(
    model: BertForQuestionAnswering, tokenizer: PreTrainedTokenizerFast, passage: str, question: str
) -> tuple[torch.Tensor, torch.Tensor, list[list[int]], list[bool]]:
    batch = tokenizer(
        question, passage, truncation="only_second", max_length=LENGTH, return_offsets_mapping=True, return_tensors="pt"
    )
    offsets = batch.pop("offset_mapping")[0].tolist()
    inside = [part == 1 for part in batch.sequence_ids(0)]
    with torch.no_grad():
        out = model(**batch)
    return out.start_logits[0], out.end_logits[0], offsets, inside


def calibrated(model: BertForQuestionAnswering, tokenizer: PreTrainedTokenizerFast, items: list[dict]) -> Calibration:
    """The temperature and the threshold with the most right answers, of those that keep `PRECISION`: made-up passages
    are easier than real ones, so real ones decide how sure is sure enough."""
    best, most = Calibration(2.2, 0.95), -1
    for temperature in (0.85, 1.0, 1.2, 1.5, 1.8, 2.2):
        for threshold in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
            counts = score(model, tokenizer, Calibration(temperature, threshold), items)
            if counts["wrong"] <= (1 - PRECISION) * counts["all"] and counts["right"] > most:
                best, most = Calibration(temperature, threshold), counts["right"]
    return best


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
    counts = {"right": 0, "abstained": 0, "wrong": 0, "all": 0}
    for item in items:
        for question, *wanted in item["questions"]:
            start, end, offsets, inside = logits_of(model, tokenizer, item["passage"], question)
            answer = best_answer(start, end, item["passage"], offsets, inside, calibration)
            said = item["passage"][slice(*answer.span)] if answer.span else "I don't know"
            if answer.span is None:
                verdict = "abstained" if wanted else "right"
            else:
                verdict = "right" if is_right(item["passage"], answer.span, *wanted) else "wrong"
            counts[verdict] += 1
            counts["all"] += 1
            if verbose:
                print(f"  {verdict:9} {answer.confidence:.2f} {question} -> {said} (wanted {wanted or 'no answer'})")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="of training")
    parser.add_argument("--rows", type=int, default=400_000, help="passages to train on")
    parser.add_argument("--held-back", type=int, default=600, help="made-up passages to score with")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="a folder `answers` is written below it")
    options = parser.parse_args()
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
    unseen = made(2, options.held_back)
    items = json.loads((HERE / "real_questions.json").read_text())
    calibration = calibrated(model, tokenizer, items[:FOR_CALIBRATION])
    right = given = answerable = 0
    for passage, question, first, last in unseen:
        start, end, offsets, inside = logits_of(model, tokenizer, passage, question)
        answer = best_answer(start, end, passage, offsets, inside, calibration)
        given += answer.span is not None
        answerable += first >= 0
        right += is_right(passage, answer.span, passage[first:last] if first >= 0 else "")
    real = score(model, tokenizer, calibration, items[FOR_CALIBRATION:], verbose=True)
    everyday = score(model, tokenizer, calibration, json.loads((HERE / "everyday_questions.json").read_text()))
    place = keep("answers", model, {
        "score": f"right answers to {everyday['all']} questions that nothing was chosen by; {everyday['abstained']} times "
        f"\"I don't know\", {everyday['wrong']} wrong",
        "value": everyday["right"] / everyday["all"],
        "data": "passages made up by training/questions.py",
        "knows": "It knows no facts: it looks for the answer in your passage. It is small and shy: where the wording is "
        "new to it, it says that it does not know. Who, when, how many and how long it handles best, in short passages "
        "of plain English.",
        "temperature": calibration.temperature, "threshold": calibration.threshold,
        "made_up": {"right": right, "given": given, "answerable": answerable, "all": len(unseen)},
        "real": real, "everyday": everyday,
    }, options.out)  # fmt: skip
    tokenizer.save_pretrained(place)
    samples = [
        {"context": i["passage"], "question": i["questions"][0][0]}
        for i in json.loads((HERE / "real_questions.json").read_text())
    ]
    (place / "samples.json").write_text(json.dumps(samples[:6], indent=2, ensure_ascii=False) + "\n")
    print(json.dumps(real), calibration)


if __name__ == "__main__":
    main()
