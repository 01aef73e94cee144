"""Trains a small GPT-2 on one text file: `python training/text.py bible.txt` (the King James Bible; see README)."""

import itertools
import re
import sys
from pathlib import Path

import torch
from language import END, WINDOW, byte_pairs, learn, tokens
from recipe import WEIGHTS
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
verses = re.findall(r"^(\w+?\d+):\d+ (.*)$", Path(sys.argv[1]).read_text(), flags=re.MULTILINE)
chapters = [" ".join(verse for _, verse in group) for _, group in itertools.groupby(verses, key=lambda v: v[0])]
held_back, seen = chapters[::20], [c for k, c in enumerate(chapters) if k % 20]
tokenizer = byte_pairs(seen)
config = GPT2Config(
    vocab_size=len(tokenizer), n_positions=2 * WINDOW, n_embd=192, n_layer=4, n_head=6,
    resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1,
    bos_token_id=tokenizer.convert_tokens_to_ids(END), eos_token_id=tokenizer.convert_tokens_to_ids(END),
)  # fmt: skip
about = "the King James Bible (1611; its copyright has expired)"
learn("text", GPT2LMHeadModel(config), tokens(tokenizer, seen), tokens(tokenizer, held_back), 6000, about)
tokenizer.save_pretrained(WEIGHTS / "text")
