"""What the app's tests share: a server of its own and a browser."""

from __future__ import annotations

import pytest

from proveout.cli.verbs.app import serving


@pytest.fixture(scope="session")
def app(tmp_path_factory):
    """The address of a server with an empty store."""
    pytest.importorskip("streamlit", reason="needs the extra `app`")
    with serving(tmp_path_factory.mktemp("cache") / "store", environment={"OMP_NUM_THREADS": "1"}) as address:
        yield address


@pytest.fixture
def tab(chromium):
    """Opens tabs. Whatever asks for anything outside of this machine fails the test."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1400})
    outside: list[str] = []

    def check(route):
        if route.request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            route.continue_()
        else:
            outside.append(route.request.url)
            route.abort()

    context.route("**/*", check)

    def opened(address: str, width: int = 1280):
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 1400})
        page.set_default_timeout(60_000)
        page.goto(address)
        return page

    yield opened
    context.close()
    assert not outside
