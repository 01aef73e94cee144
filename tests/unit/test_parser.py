"""A script's standard parameters."""

from __future__ import annotations

import sys

import pytest
from proveout.parser import PARAMETERS, parse

from proveout.errors import UsageError


def arguments(monkeypatch: pytest.MonkeyPatch, *flags: str) -> None:
    monkeypatch.setattr(sys, "argv", ["model.py", *flags])


def test_the_standard_parameters_have_mlagilitys_defaults() -> None:
    assert {name: parameter.default for name, parameter in PARAMETERS.items()} == {
        "batch_size": 1,
        "max_seq_length": 128,
        "max_audio_seq_length": 25600,
        "height": 224,
        "width": 224,
        "num_channels": 3,
        "k": 8,
        "alpha": 2.2,
        "out_channels": 16,
        "num_layers": 8,
        "in_channels": 1433,
    }


def test_values_come_in_the_order_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments(monkeypatch, "--width", "32", "--alpha=0.5")
    assert parse(["alpha", "batch_size", "width"]) == [0.5, 1, 32]
    assert [type(value) for value in parse(["alpha", "width"])] == [float, int]


def test_one_name_gives_a_list_too(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments(monkeypatch, "--batch_size", "8")
    (batch_size,) = parse(["batch_size"])
    assert batch_size == 8
    assert parse(["batch_size"]) == [8]


def test_a_name_that_is_not_standard_is_refused_with_the_valid_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments(monkeypatch)
    with pytest.raises(UsageError, match=r"unknown parameter 'batchsize'; valid: alpha, .*mean 'batch_size'"):
        parse(["batchsize"])


@pytest.mark.parametrize("flag", ["--hieght", "--height", "--batch_sizes", "stray"])
def test_a_flag_that_the_script_does_not_take_ends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    arguments(monkeypatch, flag)
    with pytest.raises(SystemExit) as ended:
        parse(["batch_size"])
    assert ended.value.code == 2
    assert f"unrecognized argument {flag}; this script takes --batch_size" in capsys.readouterr().err


def test_a_beginning_that_only_one_parameter_has_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments(monkeypatch, "--max_seq_len=64")
    assert parse(["batch_size", "max_seq_length"]) == [1, 64]


def test_a_value_of_the_wrong_type_ends_the_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments(monkeypatch, "--batch_size", "many")
    with pytest.raises(SystemExit):
        parse(["batch_size"])
    assert "argument --batch_size: invalid int value: 'many'" in capsys.readouterr().err


def test_small_is_taken_by_every_script_and_values_are_there_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments(monkeypatch, "--small", "--height", "64")
    given = parse(["height", "width"])
    assert (given.small, given.height, given.width) == (True, 64, 224)
    assert given == [64, 224]
    with pytest.raises(AttributeError, match="did not ask for 'batch_size'; add it"):
        _ = given.batch_size
    arguments(monkeypatch)
    assert parse(["height"]).small is False


def test_small_shortens_what_was_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments(monkeypatch, "--small")
    assert parse(["batch_size", "max_seq_length"]) == [1, 32]
    arguments(monkeypatch, "--small", "--max_seq_length", "128")
    assert parse(["max_seq_length"]) == [128]


def test_every_script_is_told_which_weights_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments(monkeypatch)
    assert parse().weights == "random"
    arguments(monkeypatch, "--weights", "pretrained")
    assert parse(["batch_size"]).weights == "pretrained"
    arguments(monkeypatch)
    monkeypatch.setenv("PROVEOUT_WEIGHTS", "pretrained")
    assert parse(["batch_size"]).weights == "pretrained"
