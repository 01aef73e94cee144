"""Pastes generated parts between the markers of a README template, which stays the source of everything else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from proveout.errors import EnvironmentFault, UsageError, unknown
from proveout.report.tables import corpus_ops, markdown, planned
from proveout.report.tables.rows import Report
from proveout.store import write_text

PARTS: dict[str, Callable[[Report, str], str]] = {
    "planned": lambda report, _: "\n\n".join(planned.glance(report)),
    "glance": lambda report, _: "\n\n".join(markdown.at_a_glance(planned.parted(report)[1])),
    "models": lambda report, pages: "\n\n".join(markdown.supported_models(planned.parted(report)[1], pages)),
    "op-status": lambda report, pages: "\n\n".join(markdown.op_status(planned.parted(report)[1], pages)),
    "ops": lambda report, _: corpus_ops.render_markdown(report).rstrip(),
}
"""What a template can ask for: `<!-- proveout:models -->` … `<!-- /proveout:models -->`."""

_MARKED = re.compile(r"<!-- proveout:([\w-]+) -->\n.*?<!-- /proveout:\1 -->", re.DOTALL)


def default_output(template: Path) -> Path:
    """`docs/README.md.in` makes `README.md` where one stands; a file without `.in` is filled in its own place."""
    return Path(template.stem) if template.suffix == ".in" else template


def write_readme(report: Report, template: Path, output: Path, report_folder: Path | None) -> Path:
    """Write the template with its marked parts made new; links lead to the models' pages in the report's folder,
    where it has them."""
    try:
        source = template.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot read the template {template}: {error.strerror}. Name another with --readme."
        ) from None
    pages = ""
    if report_folder is not None:
        pages = os.path.relpath(report_folder.expanduser() / markdown.PAGES, output.parent).replace(os.sep, "/")
    text = fill(source, report, pages, str(template) if template != output else "")
    try:
        write_text(output, text)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write {output}: {error.strerror}. Name another with --readme-output FILE."
        ) from error
    return output


def fill(source: str, report: Report, pages: str, template: str = "") -> str:
    """The template's text with each marked part replaced; the markers stay, so that the result is a template too."""

    def part(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in PARTS:
            raise unknown("part in the template:", name, PARTS)
        edit = f"; edit {template}" if template else ""
        note = f"<!-- made by `proveout report --readme`{edit} -->"
        return f"<!-- proveout:{name} -->\n{note}\n\n{PARTS[name](report, pages)}\n\n<!-- /proveout:{name} -->"

    text, filled = _MARKED.subn(part, source)
    if not filled:
        wanted = " and ".join(f"<!-- {slash}proveout:models -->" for slash in ("", "/"))
        raise UsageError(f"the template has no pair of markers to paste between. Add the lines {wanted}.")
    return text
