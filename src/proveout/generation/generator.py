"""A decoder compiled for generation.

    generator = Generator.compile(model, device="sim", max_length=512, batch=4)
    for tokens in generator.generate(ids, max_new_tokens=64, mask=mask):    # [batch] at a time, as they come
        ...

A user's tokens lie in the cache from position 0 on. Whoever schedules users uses the two calls themselves:

    logits = generator.prefill(ids, mask, slots=[2])         # a prompt into slot 2, the others stay as they are
    logits = generator.decode(tokens, positions)             # one token for every slot, each at its own position

With `page_size` the cache lies in pages, and a table that is an input of every call names each user's.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from proveout.compiler.program_passes.pack_cache import is_read_unpacked
from proveout.devices.registry import find, info_of
from proveout.engine.compiled import Compiled
from proveout.engine.compiled import compile as compile_model
from proveout.engine.layers import alike_layers
from proveout.engine.repeat import NotAlike
from proveout.engine.residence import Residence
from proveout.errors import UsageError
from proveout.generation.cache import LayerShape, layer_shapes
from proveout.generation.forwards import CacheStore, Decode, Prefill
from proveout.generation.messages import DECODE
from proveout.generation.pages import Paging, SlotPages
from proveout.generation.phase import LOGITS, Phase
from proveout.generation.sampling import GREEDY, Sampling
from proveout.generation.state_space import (
    StateDecode,
    StatePrefill,
    StateShape,
    is_state_space,
    state_shapes,
    with_states,
)
from proveout.generation.twin import twin_of
from proveout.program import Device, Program
from proveout.types import DTYPE_BYTES, Settings

log = logging.getLogger(__name__)

SHORTEST = 32
"""The least length that a prompt is padded to: a tile's rows."""


class Generator:
    """A decoder with its cache: a prefill Program per padded length, made when first needed, and a decode Program."""

    def __init__(
        self,
        model: Any,
        device: str | Device,
        settings: Settings | Mapping[str, Any] | None,
        max_length: int,
        batch: int,
        dry_run: bool,
        paging: Paging | None,
        sampling: Sampling | None,
    ) -> None:
        """Use `Generator.compile`."""
        self.paging = paging
        self.sampling = None if sampling is None or not sampling.on_device else replace(sampling, seed=0)
        """How the decode Program chooses tokens; None where it gives logits."""
        self.pages = None if paging is None else SlotPages(paging.count, paging.size)
        """Who holds the cache's pages, by slot; a caller that gives tables of its own does not change it."""
        self.model, self.max_length, self.batch = model, max_length, batch
        self._device, self._dry_run = device, dry_run
        self._settings = settings if isinstance(settings, Settings) else Settings.of(dict(settings or {}))
        self.recurrent = is_state_space(model)
        """Whether it keeps states, which have no length, and no keys and values."""
        twin = twin_of(model, max_length, None if dry_run else _home(device))
        self._computed = with_states(twin) if self.recurrent else twin
        self.layers: tuple[LayerShape, ...] | tuple[StateShape, ...] = (
            state_shapes(model) if self.recurrent else layer_shapes(self._computed)
        )
        """What each layer keeps for a token, or of a text."""
        self._few = alike_layers(self._computed, "model") if dry_run and self._where.type == "meta" else None
        self._new_store()
        self._prefills: dict[tuple[int, int], Phase] = {}
        self._decodes: dict[Sampling | None, Phase] = {}

    @staticmethod
    def compile(
        model: Any,
        *,
        device: str | Device = "sim",
        settings: Settings | Mapping[str, Any] | None = None,
        max_length: int,
        batch: int = 1,
        prompt_lengths: Collection[int] = (),
        page_size: int = 0,
        pages: int = 0,
        sampling: Sampling | None = None,
        dry_run: bool = False,
    ) -> Generator:
        """Compile a decoder of transformers (a model with logits) for `batch` users of at most `max_length` tokens
        each, prompt included.

        The decode Program is made at once, and prefill Programs for `prompt_lengths`; those for other lengths when they
        are needed. With `dry_run` nothing runs on the device; a model whose parameters are on `meta` can then be
        planned without its weights.

        With `page_size` the cache has `pages` pages of so many tokens, which users share: as many as all of them can
        fill where `pages` is 0. With `sampling` the decode Program chooses the tokens itself, so that they and not the
        logits leave the device: GREEDY ones, or of the `top_k` most likely; whoever asks for logits, or samples
        otherwise, gets another Program.
        """
        config = getattr(model, "config", None)
        if not isinstance(model, torch.nn.Module) or config is None or not hasattr(config, "get_text_config"):
            raise UsageError(f"{type(model).__name__} is not a language model of transformers: it has no config.")
        if config.is_encoder_decoder:
            raise UsageError(f"{type(model).__name__} has an encoder: generation is for decoders alone.")
        can_generate = getattr(model, "can_generate", None)
        if can_generate is not None and not can_generate():
            raise UsageError(f"{type(model).__name__} is not a causal language model: it generates no text.")
        if max_length < 1 or batch < 1:
            raise UsageError(f"max_length={max_length} and batch={batch}: both are at least 1.")
        positions = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
        if positions is not None and max_length > positions:
            raise UsageError(f"max_length={max_length} is more than the model's {positions} positions.")
        paging = None
        if page_size:
            paging = Paging(page_size, pages or batch * -(-max_length // max(1, page_size)))
        elif pages:
            raise UsageError(f"pages={pages} without a page_size: say how many tokens a page holds (32, say).")
        if paging is not None and is_state_space(model):
            raise UsageError(f"{type(model).__name__} keeps states and no positions: leave page_size out.")
        generator = Generator(model.eval(), device, settings, max_length, batch, dry_run, paging, sampling)
        for length in prompt_lengths:
            generator.prefill_phase(length)
        _ = generator.decode_phase
        return generator

    @property
    def decode_phase(self) -> Phase:
        """The decode call, compiled: with `sampling` the one that gives tokens."""
        return self._decode_phase(self.sampling)

    def _decode_phase(self, sampling: Sampling | None) -> Phase:
        if sampling not in self._decodes:
            example = torch.zeros(self.batch, dtype=torch.long, device=self._where)
            table = None if self.paging is None else self._table([()] * self.batch)
            draws = sampling is not None and not sampling.greedy
            uniform = torch.zeros(self.batch, 1, device=self._where) if draws else None
            name = DECODE if sampling == self.sampling else LOGITS
            call = functools.partial(self._decode_call, sampling)
            self._decodes[sampling] = Phase(name, self._compiled(call, (example, example.clone(), table, uniform)))
        return self._decodes[sampling]

    def prefill_phase(self, prompt_length: int, prompts: int | None = None) -> Phase:
        """The prefill call for as many prompts (all users' unless told) of at most this length, compiled."""
        prompts = self.batch if prompts is None else prompts
        length = self.bucket(prompt_length)
        key = prompts, length
        if key not in self._prefills:
            whole = prompts == self.batch
            ids = torch.zeros(prompts, length, dtype=torch.long, device=self._where)
            last = torch.zeros(prompts, dtype=torch.long, device=self._where)
            slots = () if whole else (torch.arange(prompts, device=self._where),)
            where = slots if self.paging is None else (self._table([()] * prompts),)
            call = functools.partial(self._prefill_call, whole)
            self._prefills[key] = Phase(f"prefill {length}", self._compiled(call, (ids, last, *where)))
        return self._prefills[key]

    @property
    def phases(self) -> tuple[Phase, ...]:
        """All that is compiled so far: prefills by length, then decode, then decode with logits where both were asked
        for."""
        _ = self.decode_phase
        return (*(self._prefills[key] for key in sorted(self._prefills)), *self._decodes.values())

    @property
    def programs(self) -> dict[str, Program]:
        """The Programs by their phase's name: `prefill 64`, `decode`."""
        return {phase.name: phase.program for phase in self.phases}

    @property
    def cache_bytes(self) -> int:
        """Of the keys and values of all users, as the device keeps them; without tile padding."""
        held = (self.batch, self.max_length) if self.paging is None else (self.paging.count + 1, self.paging.size)
        return round(sum(layer.nbytes(*held) / layer.dtype.itemsize for layer in self.layers) * self.bytes_per_value)

    @property
    def bytes_per_value(self) -> float:
        """Of a key, a value or a state between calls: in the format of `settings.cache`, or at the precision that is
        computed in."""
        if self._settings.cache != "same" and not self.recurrent:
            return DTYPE_BYTES[self._settings.cache]
        return 2 if self._settings.precision == "bfloat16" else self.layers[0].dtype.itemsize

    @property
    def cache_is_unpacked(self) -> bool:
        """Whether a decode step reads keys and values in another format than they are kept in: it unpacks them all."""
        return any(is_read_unpacked(program) for program in self.decode_phase.programs)

    @property
    def weight_bytes(self) -> int:
        """Of the model's parameters as they are in PyTorch."""
        return sum(p.numel() * p.element_size() for p in self.model.parameters())

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not as one might expect, in sentences."""
        experts = {m.num_experts for m in self._computed.modules() if isinstance(getattr(m, "num_experts", None), int)}
        dense = (f"all {n} experts are computed for every token (dense)" for n in sorted(experts))
        if self.recurrent:
            return (*dense, "a state space: what it keeps of a text is of the same size however long the text is")
        cache = self._settings.cache
        if cache == "same":
            return tuple(dense)
        unpacked = (
            ", and unpacked at every step: attention here has no kernel that reads it" if self.cache_is_unpacked else ""
        )
        return (*dense, f"the cache is kept in {cache}{unpacked}")

    def bucket(self, prompt_length: int) -> int:
        """The length that a prompt is padded to: a power of two of at least a tile, and at most the cache's."""
        if not 0 < prompt_length <= self.max_length:
            raise UsageError(f"a prompt of {prompt_length} tokens: the cache holds 1 to {self.max_length}.")
        least = max(SHORTEST, self.paging.size if self.paging else 1)
        return min(max(least, 1 << (prompt_length - 1).bit_length()), self._store.length)

    def prefill(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor | None = None,
        slots: Sequence[int] | None = None,
        tables: Sequence[Sequence[int]] | None = None,
    ) -> torch.Tensor:
        """Put prompts into the cache; the logits [prompts, vocabulary] after each one's last token.

        `ids` [prompts, length] with `mask` [prompts, length] of ones where a token is: padding may be left or right of
        a prompt. Without `slots` the prompts are those of all users in order; with it, of the users that it names.
        In a cache of pages a prompt goes into the pages of its row of `tables`; without that, its slot's old pages are
        free again, and as many as it needs are taken.
        """
        rows, lengths = self._rows(ids, mask, slots)
        phase = self.prefill_phase(max(lengths), len(rows))
        padded = torch.zeros(len(rows), self.bucket(max(lengths)), dtype=torch.long)
        for row, tokens in zip(padded, rows):
            row[: len(tokens)] = tokens
        if self.pages is not None:
            if tables is None:
                tables = self.pages.taken(range(self.batch) if slots is None else slots, lengths)
            return self._run(phase, padded, torch.tensor(lengths) - 1, self._table(tables))
        where = () if len(rows) == self.batch and slots is None else (torch.tensor(slots),)
        if len(rows) == self.batch and where:  # every user, in another order
            order = torch.tensor(slots).argsort()
            inverse = order.argsort()
            padded, last = padded[order], (torch.tensor(lengths) - 1)[order]
            return self._run(phase, padded, last)[inverse]
        return self._run(phase, padded, torch.tensor(lengths) - 1, *where)

    def decode(
        self, token: torch.Tensor, position: torch.Tensor, tables: Sequence[Sequence[int]] | None = None
    ) -> torch.Tensor:
        """Put one token of every user into the cache at its position; the logits [batch, vocabulary] for the next.

        A slot that nobody uses takes any token at any position: its next prompt overwrites it. In a cache of pages
        `tables` has each user's, or none; without it a slot with a prompt gets another page when it needs one.
        """
        return self._decoded(self._decode_phase(None), token, position, tables)

    def next_token(
        self, token: torch.Tensor, position: torch.Tensor, tables: Sequence[Sequence[int]] | None = None
    ) -> torch.Tensor:
        """The same, and the most likely next token [batch] of each user; the device chooses it where it was compiled
        with GREEDY."""
        if self.sampling == GREEDY:
            return self._decoded(self.decode_phase, token, position, tables)
        return self.decode(token, position, tables).argmax(-1)

    def _decoded(
        self,
        phase: Phase,
        token: torch.Tensor,
        position: torch.Tensor,
        tables: Sequence[Sequence[int]] | None,
        uniform: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if tuple(token.shape) != (self.batch,) or tuple(position.shape) != (self.batch,):
            raise UsageError(
                f"decode takes a token and a position for each of {self.batch} users, not {tuple(token.shape)} and"
                f" {tuple(position.shape)}."
            )
        furthest, least = int(position.max()), int(position.min())
        if furthest >= self.max_length or least < 0:
            where = furthest if furthest >= self.max_length else least
            raise UsageError(f"position {where}: the cache holds {self.max_length}. Compile with a larger max_length.")
        table = None
        if self.pages is not None:
            table = self._table(self.pages.grown((position + 1).tolist()) if tables is None else tables)
        return self._run(phase, token.long(), position.long(), table, uniform)

    def release(self, slot: int) -> None:
        """Give a user's pages back; its next prompt takes new ones."""
        if self.pages is not None:
            self.pages.release(slot)

    def _table(self, tables: Sequence[Sequence[int]]) -> torch.Tensor:
        assert self.paging is not None
        rows = self.paging.rows(tables, self._store.table_width)
        return torch.tensor(rows, dtype=torch.int32, device=self._where)

    def generate(
        self,
        ids: torch.Tensor,
        max_new_tokens: int,
        sampling: Sampling = GREEDY,
        *,
        mask: torch.Tensor | None = None,
        stop: Collection[int] = (),
    ) -> Iterator[torch.Tensor]:
        """The next tokens of every user, [batch] at a time, the first after prefill. A user that drew one of `stop`
        gets that token from then on; the iterator ends when all have, or after `max_new_tokens`."""
        lengths = self._rows(ids, mask, None)[1]
        if max_new_tokens < 1:
            raise UsageError(f"max_new_tokens={max_new_tokens}: ask for at least 1.")
        needed = max(lengths) + max_new_tokens - 1
        if needed > self.max_length:
            raise UsageError(
                f"the cache holds {self.max_length} tokens; a prompt of {max(lengths)} and {max_new_tokens} new ones"
                f" need {needed}. Compile with max_length={needed}."
            )
        if self.pages is not None:
            pages = sum(self.pages.needed(length + max_new_tokens - 1) for length in lengths)
            if pages > self.pages.total:
                raise UsageError(
                    f"the cache has {self.pages.total} pages of {self.pages.size} tokens; these prompts and"
                    f" {max_new_tokens} new tokens each need {pages}. Compile with pages={pages}."
                )
        return self._tokens(ids, mask, torch.tensor(lengths), max_new_tokens, sampling, frozenset(stop))

    def _tokens(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor | None,
        position: torch.Tensor,
        max_new_tokens: int,
        sampling: Sampling,
        stop: frozenset[int],
    ) -> Iterator[torch.Tensor]:
        random = sampling.generator()
        drawn = functools.partial(sampling.uniform, self.batch, random)
        here = replace(sampling, seed=0) == self.sampling
        token = sampling.choose(self.prefill(ids, mask), drawn())
        stopped = torch.zeros(self.batch, dtype=torch.bool)
        for step in range(max_new_tokens):
            yield token
            stopped |= torch.tensor([int(t) in stop for t in token])
            if step == max_new_tokens - 1 or bool(stopped.all()):
                return
            if here:
                chosen = self._decoded(self.decode_phase, token, position, None, None if sampling.greedy else drawn())
            else:
                chosen = sampling.choose(self.decode(token, position), drawn())
            token, position = torch.where(stopped, token, chosen), position + 1

    def _rows(
        self, ids: torch.Tensor, mask: torch.Tensor | None, slots: Sequence[int] | None
    ) -> tuple[list[torch.Tensor], list[int]]:
        """Each prompt's tokens without its padding, and their number."""
        prompts = self.batch if slots is None else len(slots)
        if ids.dim() != 2 or ids.shape[0] != prompts:
            raise UsageError(
                f"ids of shape {tuple(ids.shape)} where [{prompts}, length] is needed, a row for each user."
            )
        if slots is not None and (len(set(slots)) != prompts or not all(0 <= s < self.batch for s in slots)):
            raise UsageError(f"slots={list(slots)}: name each of 0 to {self.batch - 1} at most once.")
        if mask is None:
            rows = [row.cpu() for row in ids]
        else:
            if mask.shape != ids.shape:
                raise UsageError(f"a mask of {tuple(mask.shape)} for ids of {tuple(ids.shape)}.")
            there = mask.bool().cpu()
            if bool((there.int().diff(dim=1).abs().sum(1) + there[:, 0].int() > 2).any()):
                raise UsageError("a prompt has padding inside: only padding to its left and right is possible.")
            rows = [row[seen] for row, seen in zip(ids.cpu(), there)]
        lengths = [len(row) for row in rows]
        if min(lengths) < 1:
            raise UsageError("a prompt has no token.")
        self.bucket(max(lengths))
        return rows, lengths

    def _run(self, phase: Phase, *arguments: torch.Tensor | None) -> torch.Tensor:
        if self._dry_run:
            raise UsageError("this generator was planned with dry_run: it has no weights on a device to run.")
        # A single element may have any stride, and Dynamo would compile once more for another one.
        plain = (
            None if a is None else a.to(self._where).clone(memory_format=torch.contiguous_format) for a in arguments
        )
        logits: torch.Tensor = phase.compiled(*plain)
        return logits.cpu()

    def _compiled(self, call: Callable[[], torch.nn.Module], example: tuple[torch.Tensor | None, ...]) -> Compiled:
        compiled = functools.partial(
            compile_model,
            inputs=example,
            device=self._device,
            settings=self._settings,
            dry_run=self._dry_run,
        )
        if self._few is not None:
            try:
                self._few.shorten()
                return compiled(call().eval(), repeat=self._few.repeat, residence=self._residence)
            except NotAlike as difference:
                log.info("Every layer is captured: %s", difference)
                self._few.restore()
                self._few = None
                self._new_store()
        return compiled(call().eval(), residence=self._residence)

    def _decode_call(self, sampling: Sampling | None) -> torch.nn.Module:
        if self.recurrent:
            return StateDecode(self._computed, self._store, sampling)
        return Decode(self._computed, self._store, self._layer_shapes, sampling)

    def _prefill_call(self, whole: bool) -> torch.nn.Module:
        """That of prompts: those of all users (`whole`), or of some."""
        if self.recurrent:
            return StatePrefill(self._computed, self._store, whole)
        return Prefill(self._computed, self._store, self._layer_shapes, whole)

    @property
    def _layer_shapes(self) -> tuple[LayerShape, ...]:
        """Of the layers that are captured."""
        return tuple(layer for layer in self.layers[: self._store.num_layers] if isinstance(layer, LayerShape))

    def _new_store(self) -> None:
        layers = self.layers if self._few is None else self.layers[: self._few.few]
        self._store = CacheStore(layers, self.batch, self.max_length, self._where, self.paging)
        info = find(self._device) if isinstance(self._device, str) else info_of(self._device)
        self._residence = Residence(self._store.buffers()) if info.target == "ttnn" else None
        """The cache where a chip keeps it: both calls write to it there, and nothing of it comes back."""

    @property
    def _where(self) -> torch.device:
        parameter: torch.Tensor = next(self._computed.parameters())
        return parameter.device


def _home(device: str | Device) -> torch.device | None:
    """Where caches must lie that are not to cross at every call: a GPU keeps no state of its own between calls."""
    info = find(device) if isinstance(device, str) else info_of(device)
    return torch.device("cuda", 0) if info.is_gpu else None
