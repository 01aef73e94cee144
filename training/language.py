"""What the two language models share: a byte-level BPE, windows of text, and the loss on text that was held back."""

from collections.abc import Iterable

import torch
from recipe import DEVICE, keep, train
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

VOCABULARY, WINDOW, END = 2048, 256, "<|endoftext|>"


def byte_pairs(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, bos_token=END, pad_token=END, unk_token=END
    )


def tokens(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> torch.Tensor:
    ids: list[int] = []
    for text in texts:
        ids += [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
    return torch.tensor(ids)


def learn(
    task: str, model: PreTrainedModel, seen: torch.Tensor, held_back: torch.Tensor, steps: int, about: str
) -> None:
    seen = seen.to(DEVICE)

    def batch_loss(step: int) -> torch.Tensor:
        starts = torch.randint(len(seen) - WINDOW, (96,), device=DEVICE)
        ids = seen[starts[:, None] + torch.arange(WINDOW, device=DEVICE)]
        return model(ids, labels=ids).loss

    train(model, batch_loss, steps, peak=2e-3)
    model.to(DEVICE)
    windows = held_back[: len(held_back) // WINDOW * WINDOW].view(-1, WINDOW)
    with torch.no_grad():
        losses = [model(part.to(DEVICE), labels=part.to(DEVICE)).loss.item() for part in windows.split(32)]
    model.cpu()
    keep(task, model, {
        "score": "perplexity a token of text that was held back", "value": torch.tensor(losses).mean().exp().item(),
        "data": about,
    })  # fmt: skip
