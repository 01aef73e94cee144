"""HTML elements that escape whatever is put into them."""

from __future__ import annotations

import html

VOID = {"input", "meta"}
OWN_LINE = {
    "body",
    "details",
    "div",
    "footer",
    "g",
    "head",
    "header",
    "meta",
    "section",
    "summary",
    "template",
    "tr",
    "ul",
}
"""Elements that end with a line break, so that two reports can be compared with `diff`."""


class Html(str):
    """Text that is markup already; any other string is escaped."""


def el(tag: str, *children: str, **attributes: object) -> Html:
    """One element. `class_` and `data_sort` mean `class` and `data-sort`; None and False leave one out."""
    text = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    end = "\n" if tag in OWN_LINE else ""
    return Html(f"<{tag}{text}>{end}" if tag in VOID else f"<{tag}{text}>{join(*children)}</{tag}>{end}")


def page(title: str, style: str, policy: str, *body: str) -> str:
    """A document; the browser itself refuses any request that the policy does not name."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("title", title),
        el("style", Html(style)),
    )
    return f"<!doctype html>\n{el('html', head, el('body', *body), lang='en')}\n"


def join(*children: str) -> Html:
    """Markup and text one after the other, text escaped."""
    return Html("".join(child if isinstance(child, Html) else html.escape(child) for child in children))
