"""Nothing reads our own text again: refusals and configs are values."""

from __future__ import annotations

from own_text import STRANGERS, count_own_text, readers


def test_no_regular_expression_reads_our_own_text():
    assert count_own_text() == 0, sorted(set(readers()) - set(STRANGERS)) or dict(readers())


def test_the_list_of_strangers_is_no_longer_than_it_must_be():
    found = readers()
    assert {file: number for file, (number, _) in STRANGERS.items()} == {file: found[file] for file in STRANGERS}
    assert all(whose for _, whose in STRANGERS.values())


def test_one_that_reads_our_own_text_is_counted(tmp_path):
    (tmp_path / "fixes.py").write_text(
        'import re\n\n\ndef fix(reason):\n    return re.search("not a dtype", str(reason))\n'
    )
    (tmp_path / "faithful.py").write_text('import ast\ncall = ast.parse("ttnn.Config()")\nre = {}.search\n')
    (tmp_path / "hidden.py").write_text("from re import search\n")
    (tmp_path / "store.py").write_text('import re\nNAME = re.compile("a")\nMORE = re.compile("b")\n')
    assert count_own_text(tmp_path) == 3


def test_a_test_of_a_sentence_is_counted(tmp_path):
    (tmp_path / "one.py").write_text(
        'def f(line, text):\n    return line.fix.startswith("none") or "complex" in line.reason, text.startswith("a")\n'
    )
    assert count_own_text(tmp_path) == 2
