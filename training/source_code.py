"""Trains a small CodeGen on the modules of Python's standard library, without its tests."""

import sysconfig
from pathlib import Path

import torch
from language import END, WINDOW, byte_pairs, learn, tokens
from recipe import WEIGHTS
from transformers import CodeGenConfig, CodeGenForCausalLM

LEFT_OUT = {
    "test",
    "tests",
    "site-packages",
    "dist-packages",
    "idlelib",
    "lib2to3",
    "encodings",
    "pydoc_data",
    "__pycache__",
}

torch.manual_seed(0)
library = Path(sysconfig.get_path("stdlib"))
files = sorted(f for f in library.rglob("*.py") if not LEFT_OUT & set(f.relative_to(library).parts))
modules = [text for f in files if 500 < len(text := f.read_text(errors="replace")) < 200_000]
held_back, seen = modules[::20], [m for k, m in enumerate(modules) if k % 20]
tokenizer = byte_pairs(seen)
config = CodeGenConfig(
    vocab_size=len(tokenizer), n_positions=2 * WINDOW, n_ctx=2 * WINDOW, n_embd=192, n_layer=4, n_head=4, rotary_dim=32,
    resid_pdrop=0.2, embd_pdrop=0.2, attn_pdrop=0.1,
    bos_token_id=tokenizer.convert_tokens_to_ids(END), eos_token_id=tokenizer.convert_tokens_to_ids(END),
)  # fmt: skip
about = f"{len(seen)} modules of Python's standard library (PSF licence)"
learn("code", CodeGenForCausalLM(config), tokens(tokenizer, seen), tokens(tokenizer, held_back), 3500, about)
tokenizer.save_pretrained(WEIGHTS / "code")
