"""`proveout cache`: what is in the cache, one Record in full, and ways to thin it out."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from proveout.cache import Entry, chosen, clean, delete, entries, record_of, stats, upgrade
from proveout.cli.options import CacheDir, Json
from proveout.cli.output import colour, emit, emit_json, note
from proveout.coding import to_json
from proveout.columns.words import status_words
from proveout.errors import UsageError
from proveout.report.tables.terminal import grid
from proveout.store import Store
from proveout.words import counted


class CacheAction(StrEnum):
    list = "list"
    print = "print"
    delete = "delete"
    clean = "clean"
    stats = "stats"
    upgrade = "upgrade"


def verb(
    action: Annotated[CacheAction, typer.Argument(help="What to do.", show_default=False)],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Models, patterns of them, or keys.", show_default=False),
    ] = None,
    all_records: Annotated[bool, typer.Option("--all", help="With delete: every Record.")] = False,
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", metavar="DAYS", help="With clean: also Records of that age.", show_default=False),
    ] = None,
    unreadable: Annotated[bool, typer.Option("--unreadable", help="With clean: also files nobody can read.")] = False,
    cache_dir: CacheDir = None,
    as_json: Json = False,
) -> int:
    """Inspect and prune cached results.

    list: one line a Record; print: some in full; delete: forget some; stats: how much of what; clean: delete
    compiled Programs, discoveries and leftovers, which can be made again; upgrade: rewrite Records of an older
    version in today's format, with interval and verdict of every time. A cache is a folder: move it, or copy
    one into another to merge them.

    \b
    Examples:
      proveout cache list
      proveout cache print linear --json
      proveout cache delete 'bert*'
      proveout cache clean --older-than 90
    """
    if (older_than is not None or unreadable) and action is not CacheAction.clean:
        raise UsageError("--older-than and --unreadable are for `proveout cache clean`.")
    if names and action in (CacheAction.clean, CacheAction.stats, CacheAction.upgrade):
        raise UsageError(f"`proveout cache {action}` takes no names. To forget single Records: proveout cache delete")
    if all_records and (names or action is not CacheAction.delete):
        raise UsageError("--all is for `proveout cache delete`, without names.")
    store = Store(cache_dir)
    filters = {"all_records": all_records, "older_than_days": older_than, "unreadable": unreadable}
    document = ACTIONS[action](store, names or [], as_json, filters)
    if as_json:
        emit_json({"cache": str(store.folder), **document})
    else:
        note(f"cache {store.folder}")
    return 0


def _list(store: Store, names: list[str], as_json: bool, request: dict[str, Any]) -> dict[str, Any]:
    listed = chosen(store, names) if names else entries(store)
    if not as_json:
        titles = ("Model", "Device", "Did", "Status", "Made", "Machine", "Size", "Key")
        lines = [
            (
                e.row.model,
                e.row.device,
                e.row.did,
                status_words(e.row).words,
                e.row.created,
                e.row.machine,
                _size(e.num_bytes),
                e.row.key,
            )
            for e in listed
        ]
        emit(grid(titles, lines, colour()) if lines else "No Records.")
    return {"records": [{**vars(e.row), "file": str(e.path), "bytes": e.num_bytes} for e in listed]}


def _print(store: Store, names: list[str], as_json: bool, request: dict[str, Any]) -> dict[str, Any]:
    if not names:
        raise UsageError("name a model or a key: proveout cache print linear. All are in: proveout cache list")
    records = chosen(store, names)
    if not as_json:
        emit("\n\n".join(map(_in_full, records)))
        return {}
    return {"records": [to_json(record_of(e)) for e in records]}


def _in_full(entry: Entry) -> str:
    record = record_of(entry)
    lines = [f"{key:18}{value}" for key, value in vars(entry.row).items() if value not in (None, "")]
    lines += [f"{name:18}{value}" for name, value in record.environment if name not in vars(entry.row)]
    lines.append(f"{'file':18}{entry.path}")
    if record.log:
        lines += ["log", *(f"  {line}" for line in record.log.splitlines())]
    return "\n".join(lines)


def _delete(store: Store, names: list[str], as_json: bool, request: dict[str, Any]) -> dict[str, Any]:
    if not names and not request["all_records"]:
        raise UsageError("name models or keys: proveout cache delete linear. For every Record: --all")
    records = chosen(store, names) if names else entries(store)
    return _deleted(counted(len(records), "Record"), delete(records), as_json)


def _clean(store: Store, names: list[str], as_json: bool, request: dict[str, Any]) -> dict[str, Any]:
    removed = clean(store, request["older_than_days"], request["unreadable"])
    return _deleted(counted(len(removed.files), "file"), removed, as_json)


def _stats(store: Store, names: list[str], as_json: bool, request: dict[str, Any]) -> dict[str, Any]:
    totals = stats(store)
    if not as_json:
        emit("\n".join(f"{key.replace('_', ' '):20}{_shown(key, value)}" for key, value in totals.items()))
    return totals


def _upgrade(store: Store, names: list[str], as_json: bool, request: dict[str, Any]) -> dict[str, Any]:
    files = upgrade(store)
    if not as_json:
        emit(f"rewrote {counted(len(files), 'Record')}")
    return {"rewritten": [str(path) for path in files]}


def _deleted(what: str, removed: Any, as_json: bool) -> dict[str, Any]:
    if not as_json:
        emit(f"deleted {what}, {_size(removed.num_bytes)}")
    return {"deleted": [str(path) for path in removed.files], "bytes": removed.num_bytes}


def _shown(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in sorted(value.items())) or "–"
    return _size(value) if key.endswith("_bytes") else str(value)


def _size(num_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024 or unit == "GiB":
            break
        num_bytes /= 1024
    return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"


ACTIONS: dict[CacheAction, Callable[[Store, list[str], bool, dict[str, Any]], dict[str, Any]]] = {
    CacheAction.list: _list,
    CacheAction.print: _print,
    CacheAction.delete: _delete,
    CacheAction.clean: _clean,
    CacheAction.stats: _stats,
    CacheAction.upgrade: _upgrade,
}
