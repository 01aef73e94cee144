"""Claims about the command line: exit codes, one document on stdout, nothing lost, nothing imported in vain."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_store import make_record

from proveout import cli
from proveout.cli import verbs
from proveout.columns.table import row
from proveout.columns.words import numbers
from proveout.errors import UsageError
from proveout.store import Store
from proveout.sweep import settle
from proveout.types import Job, Record, Workload

PROVEOUT = Path(sys.executable).with_name("proveout")


def run(*words: str, cache: Path | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
    """The installed program in a process of its own."""
    environment = {**os.environ, "PROVEOUT_CACHE": str(cache)} if cache else dict(os.environ)
    return subprocess.run([PROVEOUT, *words], capture_output=True, text=True, env=environment, timeout=60, **more)


# ------------------------------------------------------------------------------- in processes of its own


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["benchmark", "x.py", "--device", "sin"], "unknown device 'sin'; valid: "),
        (["benchmark", "x.py", "--colour"], "No such option: --colour. See: proveout benchmark --help"),
        (["report", "--html"], "No such option: --html. See: proveout report --help"),
        (["report", "--tabels"], "No such option: --tabels. Did you mean '--tables'? See: proveout report --help"),
        (["juggle"], "No such command 'juggle'. See: proveout --help"),
        (["benchmark", "x.py", "--set", "math_fidelity=HiFi9"], "value for setting 'math_fidelity'"),
        (["benchmark", "x.py", "--set", "tempo=3"], "unknown setting 'tempo'"),
        (["benchmark", "x.py", "--set", "trace"], "--set takes KEY=VALUE, not 'trace'"),
        (["benchmark", "x.py", "--set", "pcc=0.9", "--pcc", "0.9"], "say the same thing twice"),
        (["benchmark", "x.py", "--pcc", "7"], "setting 'pcc' takes a number from -1 to 1"),
        (["benchmark", "x.py", "--iterations", "0"], "'--iterations'"),
        (["benchmark", "nowhere.py"], "no script 'nowhere.py'"),
        (["nowhere.py"], "no script 'nowhere.py'"),
        (["report"], "Run: proveout benchmark SCRIPT.py"),
        (["query", "select nonsense from records"], "List a table's columns: proveout query 'describe records'"),
        (["query", "select modell from records"], 'Referenced column "modell" not found'),
        (["query", "select modell from records"], "Similar: model"),
        (["query", "select modell from timings"], "Similar: model. Tables: "),
        (["query", "select modell from timings"], "proveout query 'describe timings'"),
        (["minimize", "nowhere.py", "-o", "left"], "no script 'nowhere.py'"),
        (["benchmark", "x.py", "--precision", "bf17"], "Invalid value for '--precision': 'bf17' is not one of"),
        (["perf", "-n", "x"], "-n NAME is for -c"),
        (["perf", "x.py", "-c", "true"], "scripts cannot be given with -c"),
        (["perf", "-c", "true", "--device", "sim:p150"], "--device cannot be given with -c"),
        (["perf", "x.py", "--trace", "--set", "trace=true"], "say the same thing twice"),
        (["perf", "x.py", "--queues", "3"], "'--queues'"),
        (["perf", "x.py", "--device", "cpu"], "device 'cpu' has no modelled chip"),
        (["ops", "frobnicate"], "no op in the table has 'frobnicate' in its name"),
    ],
)
def test_a_mistake_is_one_sentence_on_stderr_and_exit_2(tmp_path: Path, words: list[str], sentence: str) -> None:
    done = run(*words, cache=tmp_path, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("proveout: error: ")
    assert not (tmp_path / "left").exists()
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr


def test_two_formats_at_once_are_refused(tmp_path: Path) -> None:
    done = run("query", "select 1", "--json", "--csv", cache=tmp_path)
    assert done.returncode == 2
    assert "choose one" in json.loads(done.stdout)["error"]


def test_a_mistake_with_json_is_one_document_on_stdout(tmp_path: Path) -> None:
    done = run("benchmark", "x.py", "--device", "sin", "--json", cache=tmp_path)
    assert done.returncode == 2
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["exit_code"] == 2
    assert document["error"].startswith("unknown device 'sin'")


def test_an_unwritable_cache_is_exit_3_before_any_script_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("benchmark", "nowhere.py", "--cache-dir", str(tmp_path / "file" / "cache"))
    assert done.returncode == 3
    assert "--cache-dir DIR" in done.stderr
    assert str(tmp_path / "file" / "cache") in done.stderr


@pytest.mark.slow
def test_a_corrupt_record_is_listed_and_not_fatal(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    store.write(make_record())
    path = store.write(make_record("broken"))
    path.write_text("{")
    done = run("report", cache=store.folder, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 file could not be read:" in done.stdout
    assert path.name in done.stdout
    assert "linear" in done.stdout
    asked = run("query", "select count(*) as n from records", "--json", cache=store.folder)
    document = json.loads(asked.stdout)
    assert (document["columns"], document["rows"]) == (["n"], [[1]])
    assert [bad["file"].split("/")[-1] for bad in document["unreadable"]] == [path.name]


def test_report_writes_every_format_where_it_is_told(tmp_path: Path) -> None:
    Store(tmp_path / "cache").write(make_record())
    done = run("report", "--cache-dir", str(tmp_path / "cache"), "-o", str(tmp_path / "out"), "--json")
    document = json.loads(done.stdout)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "models",
        "ops",
        "ops.csv",
        "ops.md",
        "report.csv",
        "report.html",
        "report.json",
        "report.md",
    ]
    assert sorted(document["files"]) == sorted(str(path) for path in (tmp_path / "out").rglob("*.*"))
    assert document["records"][0]["compiled_kind"] == "modelled"


def test_query_gives_csv(tmp_path: Path) -> None:
    Store(tmp_path).write(make_record())
    done = run("query", "select model, 'a,b' as x from records", "--csv", cache=tmp_path)
    assert done.stdout == 'model,x\nlinear,"a,b"\n'


def test_devices_say_whether_their_times_are_measured() -> None:
    document = json.loads(run("devices", "--json").stdout)
    times = {device["name"]: device["times"] for device in document["devices"]}
    assert (times["sim:n150"], times["cpu"]) == ("modelled", "measured")


@pytest.mark.slow
@pytest.mark.parametrize("verb", verbs.names())
def test_the_help_of_every_verb_has_an_example_and_fits_80_columns(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run(verb, "--help")
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if len(line) > 80 or line.endswith("-")] == []
    assert f"proveout {verb}" in done.stdout[done.stdout.index("Example") :]


@pytest.mark.parametrize("verb", verbs.names())
def test_the_help_of_a_verb_fits_80_columns_but_for_commands_to_copy(verb: str) -> None:
    text = inspect.getdoc(importlib.import_module(f"proveout.cli.verbs.{verb}").verb) or ""
    kept = "".join(paragraph for paragraph in text.split("\n\n") if paragraph.startswith("\b"))  # not wrapped
    assert [line for line in kept.splitlines() if len(line) > 78 and not line.startswith("  proveout ")] == []


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    for index in range(40):
        Store(tmp_path).write(make_record(f"m{index}"))
    sql = "select * from records, range(200)"
    line = f"'{PROVEOUT}' query \"{sql}\" --csv --cache-dir '{tmp_path}' | head -n 1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("key,model")
    assert done.stderr == ""


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_is_one_sentence_and_130(tmp_path: Path) -> None:
    (tmp_path / "sleepy.py").write_text(f"open({str(tmp_path / 'begun')!r}, 'w'); import time; time.sleep(50)")
    words = [PROVEOUT, "benchmark", "sleepy.py", "--cache-dir", str(tmp_path / "cache")]
    with subprocess.Popen(words, cwd=tmp_path, text=True, stderr=subprocess.PIPE) as child:
        while not (tmp_path / "begun").exists() and child.poll() is None:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=20)
    assert child.returncode == 130
    assert said == ("proveout: error: interrupted while looking for models; run the same command to continue.\n")


LIGHT = {
    "--help": ("torch", "duckdb", "rich", "proveout.types"),
    "version": ("torch", "duckdb", "rich", "proveout.types"),
    "devices": ("torch", "duckdb"),
    "report": ("torch",),
    "query": ("torch",),
}


@pytest.mark.parametrize(("verb", "heavy"), LIGHT.items())
def test_light_verbs_import_nothing_heavy(tmp_path: Path, verb: str, heavy: tuple[str, ...]) -> None:
    Store(tmp_path).write(make_record())
    words = [verb, *(["select 1"] if verb == "query" else [])]
    program = (
        "import sys; from proveout.cli import main; code = main(sys.argv[1:]);"
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PROVEOUT_CACHE": str(tmp_path)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_start_up_takes_less_than_0_3_s_of_processor_time() -> None:
    def spent() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run("version")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(spent() for _ in range(4)) < 0.3


# ------------------------------------------------------- in this process, with stand-ins for the far ends

LINEAR = make_record().job.workload
BROKEN = SimpleNamespace(workloads=(), labels=(), error="broken.py: ValueError: no luck", log="ValueError: no luck")


@dataclasses.dataclass
class World:
    """What the stand-ins answer, and what they were asked."""

    cache: Path
    found: dict[str, Any] = dataclasses.field(default_factory=dict)
    verdict: Callable[[Job], Record] = lambda job: dataclasses.replace(make_record(), job=job)
    proven: list[Job] = dataclasses.field(default_factory=list)
    discovered: list[str] = dataclasses.field(default_factory=list)
    asked: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def discover(self, script: Path, **how: Any) -> Any:
        self.discovered.append(script.name)
        self.asked.append(how)
        models = self.found.get(script.name, (LINEAR,))
        if isinstance(models, tuple):
            models = SimpleNamespace(workloads=models, labels=(), error="", log="")
        return SimpleNamespace(
            **{**vars(models), "script": str(script), "seconds": 0.1, "failure": "", "from_cache": False}
        )

    def resolve(self, names: list[str], search_dirs: list[str], all: bool) -> list[tuple[Path, tuple[str, ...]]]:
        if not names and not all:
            raise UsageError("no script was named.")
        split = [name.partition("::") for name in names]
        return [(Path(name), tuple(hashes.split(",")) if hashes else ()) for name, _, hashes in split]

    def prove(self, job: Job, run: Any = None) -> Record:
        self.proven.append(job)
        return self.verdict(job)

    def run(self, *words: str) -> int:
        return cli.main([*words, "--cache-dir", str(self.cache)])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path / "cache")
    monkeypatch.setattr("proveout.sweep.tasks.discover", made.discover)
    monkeypatch.setattr("proveout.cli.request.resolve", made.resolve)
    monkeypatch.setattr("proveout.sweep.tasks.prove", made.prove)
    return made


def failing(job: Job) -> Record:
    return dataclasses.replace(make_record(), job=job, status="failed", failure="numerics", reason="PCC is low")


def labelled(*labels: tuple[str, tuple[str, ...]]) -> Workload:
    return dataclasses.replace(LINEAR, labels=labels)


def stored(world: World) -> list[Record]:
    return Store(world.cache).records()[0]


def test_benchmark_proves_stores_and_prints(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert world.run("benchmark", "linear.py") == 0
    out, err = capsys.readouterr()
    assert "0.042 (modelled)" in out
    assert "[1/1] linear on sim:n150: passed" in err
    assert f"1 new result, 0 from the cache ({world.cache})" in err
    assert [r.job for r in stored(world)] == world.proven
    assert world.proven[0].do == ("check", "benchmark")


@pytest.mark.parametrize(
    ("words", "do"),
    [
        (["check"], ("check",)),
        (["compile"], ("compile", "run")),
        (["compile", "--dry-run"], ("compile",)),
        (["benchmark"], ("check", "benchmark")),
    ],
)
def test_each_verb_asks_for_its_own_work(world: World, words: list[str], do: tuple[str, ...]) -> None:
    world.run(*words, "linear.py")
    assert [job.do for job in world.proven] == [do]


def test_a_script_as_first_word_is_benchmarked(world: World) -> None:
    assert world.run("linear.py::ab12cd34") == 0
    assert world.proven[0].do == ("check", "benchmark")


def test_options_reach_the_job(world: World) -> None:
    world.run(
        "benchmark", "linear.py", "--device", "sim,cpu", "--pcc", "0.9", "--set", "trace=true", "--set", "queues=2",
        "--set", "math_fidelity=HiFi2", "--iterations", "7", "--warmup", "0", "--timeout", "30",
    )  # fmt: skip
    chip, cpu = world.proven
    assert (chip.device, cpu.device) == ("sim:n150", "cpu")
    assert (chip.settings.precision, cpu.settings.precision) == ("bfloat16", "model")
    assert (chip.settings.pcc, chip.settings.trace, chip.settings.queues) == (0.9, True, 2)
    assert chip.settings.math_fidelity == "HiFi2"
    assert (chip.iterations, chip.warmup, chip.timeout_s) == (7, 0, 30.0)


def test_precision_given_holds_for_every_device(world: World) -> None:
    world.run("check", "linear.py", "--device", "sim,cpu", "--precision", "model")
    assert [job.settings.precision for job in world.proven] == ["model", "model"]


def test_one_device_under_two_names_is_run_once(world: World) -> None:
    world.run("check", "linear.py", "--device", "sim,sim:n150")
    assert len(world.proven) == 1


def test_nothing_is_run_when_a_later_device_is_unknown(world: World) -> None:
    assert world.run("benchmark", "linear.py", "--device", "cpu,gpu9") == 2
    assert world.discovered == []


def test_a_failing_model_is_exit_1_with_its_reason(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.verdict = failing
    assert world.run("benchmark", "linear.py") == 1
    assert "✘ linear on sim:n150: PCC is low" in capsys.readouterr().out


def test_json_is_exactly_one_document(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.verdict = failing
    assert world.run("benchmark", "linear.py", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    (record,) = document["records"]
    assert (document["cache"], document["failed"]) == (str(world.cache), 1)
    assert (record["status"], record["reason"], record["from_cache"]) == ("failed", "PCC is low", False)
    assert Path(record["file"]).is_file()


def test_a_finished_job_is_not_run_again(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.run("benchmark", "linear.py")
    assert world.run("benchmark", "linear.py") == 0
    assert len(world.proven) == 1
    assert "0 new results, 1 from the cache (" in capsys.readouterr().err
    world.run("benchmark", "linear.py", "--rebuild", "always")
    world.run("benchmark", "linear.py", "--iterations", "5")
    assert len(world.proven) == 3


def test_reading_a_record_does_not_write_it(world: World) -> None:
    world.run("benchmark", "linear.py")
    path = Store(world.cache).path(world.proven[0])
    before = path.stat().st_ino
    world.found["linear.py"] = (dataclasses.replace(LINEAR, seconds=7.0),)
    world.run("benchmark", "linear.py", "--timeout", "60")
    assert path.stat().st_ino == before


def test_a_cached_failure_is_still_exit_1(world: World) -> None:
    world.verdict = failing
    assert [world.run("benchmark", "linear.py") for _ in range(2)] == [1, 1]
    assert len(world.proven) == 1


def test_a_timeout_is_tried_again_only_with_more_time(world: World) -> None:
    world.verdict = lambda job: dataclasses.replace(failing(job), failure="timeout")
    for limit in ("10", "10", "60"):
        world.run("benchmark", "linear.py", "--timeout", limit)
    assert [job.timeout_s for job in world.proven] == [10.0, 60.0]


def test_a_partial_record_is_made_again(world: World) -> None:
    world.verdict = lambda job: dataclasses.replace(make_record(), job=job, status="partial", reason="stopped")
    assert [world.run("benchmark", "linear.py") for _ in range(2)] == [1, 1]
    assert len(world.proven) == 2


def test_rebuild_never_refuses_what_is_missing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert world.run("benchmark", "linear.py", "--rebuild", "never") == 2
    assert "1 of 1 Records are not in the cache" in capsys.readouterr().err
    assert world.proven == []


def test_a_hash_picks_one_model_and_an_unknown_one_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    other = dataclasses.replace(LINEAR, name="other", selector="ffffffffffff")
    world.found["two.py"] = (LINEAR, other)
    assert world.run("benchmark", "two.py::ffffffffffff") == 0
    assert [job.workload.name for job in world.proven] == ["other"]
    assert world.run("benchmark", "two.py::000000000000") == 2
    assert "has no model 000000000000; it has ab12cd34, ffffffffffff" in capsys.readouterr().err


def test_a_script_without_a_model_gets_a_record(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.found["broken.py"] = BROKEN
    assert world.run("benchmark", "broken.py", "linear.py") == 1
    broken, linear = stored(world)
    assert (broken.job.workload.name, broken.job.workload.selector) == ("broken", "")
    assert (broken.status, broken.failure, broken.reason) == ("failed", "script", BROKEN.error)
    assert broken.log == BROKEN.log
    assert linear.status == "passed"
    assert "no luck" in capsys.readouterr().out


def test_a_repaired_script_loses_its_failure(world: World) -> None:
    world.found["broken.py"] = BROKEN
    world.run("benchmark", "broken.py")
    world.found.clear()
    assert world.run("benchmark", "broken.py") == 0
    assert [r.status for r in stored(world)] == ["passed"]


def test_a_script_that_raises_after_its_model_ran_still_counts(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.found["late.py"] = SimpleNamespace(workloads=(LINEAR,), labels=(), error="raised at the end", log="")
    assert world.run("benchmark", "late.py") == 0
    assert "late.py: 1 model; raised at the end" in capsys.readouterr().err


def test_an_expected_failure_is_not_a_failure(world: World) -> None:
    label = ("expect", ("fail",))
    world.found["model.py"] = (labelled(label),)
    world.found["script.py"] = SimpleNamespace(**{**vars(BROKEN), "labels": (label,)})
    world.verdict = failing
    assert world.run("benchmark", "model.py", "script.py") == 0
    assert [r.status for r in stored(world)] == ["expected_failure"] * 2


def test_passing_where_failure_was_expected_is_a_failure(world: World) -> None:
    world.found["model.py"] = (labelled(("expect", ("fail",))),)
    assert world.run("benchmark", "model.py") == 1
    (record,) = stored(world)
    assert (record.status, record.reason) == ("failed", "was expected to fail, but passed")


def test_a_label_that_comes_or_goes_turns_a_cached_verdict(world: World) -> None:
    seen = []
    for labels in ((), (("expect", ("fail",)),), ()):
        world.found["model.py"] = (labelled(*labels),)
        code = world.run("benchmark", "model.py")
        seen.append((code, stored(world)[0].status))
    assert seen == [(0, "passed"), (1, "failed"), (0, "passed")]
    assert len(world.proven) == 1


@pytest.mark.parametrize("status", ["passed", "failed"])
@pytest.mark.parametrize("labels", [(), (("expect", ("fail",)),)])
def test_settling_twice_is_settling_once(status: Any, labels: Any) -> None:
    record = make_record(status=status, failure="" if status == "passed" else "numerics")
    record = dataclasses.replace(record, job=dataclasses.replace(record.job, workload=labelled(*labels)))
    assert settle(settle(record)) == settle(record)


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    other = dataclasses.replace(LINEAR, name="other", selector="ffffffffffff")
    world.found["two.py"] = (LINEAR, other)

    def interrupted(job: Job) -> Record:
        if job.workload.name == "other":
            raise KeyboardInterrupt
        return dataclasses.replace(make_record(), job=job)

    world.verdict = interrupted
    assert world.run("benchmark", "two.py") == 130
    assert "1 of 2 done" in (err := capsys.readouterr().err)
    assert "run the same command to continue" in err
    world.verdict = lambda job: dataclasses.replace(make_record(), job=job)
    assert world.run("benchmark", "two.py") == 0
    assert [job.workload.name for job in world.proven] == ["linear", "other", "other"]


def test_compile_leaves_each_model_a_folder_and_asks_again_when_it_is_gone(world: World, tmp_path: Path) -> None:
    def leaves_a_program(job: Job) -> Record:
        Path(job.artifacts, "graph0").mkdir(parents=True, exist_ok=True)
        Path(job.artifacts, "graph0", "program.json").write_text("{}")
        return dataclasses.replace(make_record(), job=job)

    world.verdict = leaves_a_program
    words = ("compile", "linear.py", "-o", str(tmp_path / "programs"))
    assert world.run(*words) == 0
    folder = Path(world.proven[0].artifacts)
    assert folder.parent == tmp_path / "programs"
    world.run(*words)
    assert len(world.proven) == 1
    (folder / "graph0" / "program.json").unlink()
    world.run(*words)
    assert len(world.proven) == 2
    world.run(*words, "--pcc", "0.5")
    world.run(*words)
    assert len(world.proven) == 4, "the folder holds another Job's Programs"


@pytest.mark.parametrize("words", [("compile", "-o"), ("compile", "--dump"), ("perf", "-o"), ("export", "-o")])
def test_a_record_is_not_made_again_under_the_same_key(world: World, tmp_path: Path, words: tuple[str, str]) -> None:
    for _ in range(2):
        world.run(words[0], "linear.py", words[1], str(tmp_path / "left"))
    assert len(world.proven) == 1, "a model without a Program leaves none, and is done all the same"


def test_compile_says_what_stays_on_the_host(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.run("compile", "--dry-run", "linear.py")
    assert "why   no kernel sorts along a dimension of 64" in capsys.readouterr().out


def test_compile_json_holds_the_ledger(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.run("compile", "--dry-run", "linear.py", "--json")
    (record,) = json.loads(capsys.readouterr().out)["records"]
    assert [(line["rank"], line["fix"]) for line in record["fallbacks"]] == [(1, "pad the dimension to 128")]


def test_a_dump_is_made_even_where_the_record_is_known(world: World, tmp_path: Path) -> None:
    words = ("compile", "linear.py")
    for more, times in (((), 1), (("--dump", str(tmp_path / "passes")), 2), (("--dump", str(tmp_path / "passes")), 2)):
        assert world.run(*words, *more) == 0
        assert len(world.proven) == times
    assert Path(world.proven[1].dump).parent == tmp_path / "passes"
    assert (tmp_path / "passes" / "index.html").exists()


def test_discover_lists_models_and_reports_scripts_without(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.found["broken.py"] = BROKEN
    assert cli.main(["discover", "linear.py", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["scripts"][0]["models"][0]["selector"] == "ab12cd34"
    assert cli.main(["discover", "linear.py", "broken.py"]) == 1
    out, err = capsys.readouterr()
    assert "ab12cd34" in out
    assert BROKEN.error in err


def test_ops_shows_how_the_models_in_the_cache_call_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        Store(tmp_path).write(make_record(name))
    assert cli.main(["ops", "sort", "--variations", "--cache-dir", str(tmp_path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["variations"]
    assert (found["inputs"], found["state"], found["count"]) == ("self=f32[64]", "host", 2)
    assert found["models"] == ["one", "two"]
    assert cli.main(["ops", "nothing", "--variations", "--cache-dir", str(tmp_path)]) == 2


# What scripts are chosen and how they are run


def test_labels_choose_scripts(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, line in {"a": "author::google tags::x,y", "b": "author::google tags::y", "c": "author::meta"}.items():
        (tmp_path / f"{name}.py").write_text(f"# labels: {line}\n")
    scripts = [str(tmp_path / f"{name}.py") for name in "abc"]

    def taken(*labels: str) -> str:
        world.discovered.clear()
        assert world.run("benchmark", *scripts, "--labels", *labels) == 0
        return "".join(sorted(Path(name).stem for name in world.discovered))

    assert taken("tags::y") == "ab"
    assert taken("tags::x,y", "author::google") == "ab"
    assert taken("author::google", "--labels", "tags::x") == "a"
    assert taken("author::google", "author::meta") == "abc", "of several values for one key any will do"
    assert world.run("benchmark", *scripts, "--labels", "tags::z") == 2
    assert "none of 3 scripts is labelled tags::z; they have tags::x, tags::y." in capsys.readouterr().err
    assert world.run("benchmark", *scripts, "--labels", "tags") == 2
    assert "--labels takes key::value, not 'tags'" in capsys.readouterr().err


def test_small_is_given_to_scripts_that_know_it(world: World, tmp_path: Path) -> None:
    (tmp_path / "knows.py").write_text("from proveout.parser import parse\n")
    (tmp_path / "through.py").write_text("from _table import run\n")
    (tmp_path / "_table.py").write_text("from proveout.parser import parse\n")
    (tmp_path / "other.py").write_text("import argparse  # proveout.parser\n")
    scripts = [str(tmp_path / f"{name}.py") for name in ("knows", "through", "other")]
    assert world.run("benchmark", *scripts, "--small", "--script-args", "--k 2") == 0
    assert [how["script_args"] for how in world.asked] == ["--k 2 --small", "--k 2 --small", "--k 2"]


def test_a_sandbox_never_holds_the_cache(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scripts write below the working folder, where they could change what is kept about others."""
    for working in (world.cache, world.cache.parent, world.cache / "machine"):
        working.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(working)
        assert world.run("benchmark", str(tmp_path / "x.py"), "--sandbox") == 2
    assert world.asked == []


def test_options_reach_the_discovery(world: World, tmp_path: Path) -> None:
    words = ("--weights", str(tmp_path), "--max-depth", "2", "--no-network", "--sandbox", "--memory", "2")
    assert world.run("benchmark", "linear.py", *words) == 0
    (how,) = world.asked
    assert (how["weights"], how["max_depth"], how["cache"]) == (str(tmp_path), 2, world.cache)
    assert (how["limits"].memory_bytes, how["limits"].network, how["limits"].sandbox) == (2 * 2**30, False, True)
    assert how["limits"].processes > 0
    assert world.proven[0].limits == dataclasses.replace(how["limits"], processes=0)
    world.run("benchmark", "linear.py", "--rebuild", "always")
    assert world.asked[1]["cache"] is None, "models are looked for anew"


def test_times_are_taken_for_five_seconds_unless_told_otherwise(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([], ["--duration", "2"], ["--iterations", "7"]):
        world.run("benchmark", "linear.py", *words)
    assert [(job.duration_s, job.iterations) for job in world.proven] == [(5.0, 0), (2.0, 0), (0.0, 7)]
    assert world.run("benchmark", "linear.py", "--duration", "2", "--iterations", "7") == 2
    assert "keep one" in capsys.readouterr().err


def test_another_runtime_runs_on_the_cpu(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert world.run("benchmark", "linear.py", "--runtime", "eager", "--lean-cache") == 0
    assert (world.proven[0].runtime, world.proven[0].device, world.proven[0].lean) == ("eager", "cpu", True)
    assert world.run("benchmark", "linear.py", "--runtime", "eager", "--device", "sim:p150") == 2
    assert world.run("benchmark", "linear.py", "--runtime", "eager", "--build-only") == 2
    assert "nothing to build" in capsys.readouterr().err


def test_analyze_only_and_build_only_stop_early(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert world.run("benchmark", "linear.py", "--analyze-only") == 0
    assert "ab12cd34" in capsys.readouterr().out
    assert world.proven == []
    world.run("benchmark", "linear.py", "--build-only")
    assert [job.do for job in world.proven] == [("compile",)]


def test_an_onnx_file_says_what_it_needs(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert world.run("model.onnx") == 3
    assert "model.onnx needs onnxruntime. Run: pip install onnxruntime" in capsys.readouterr().err
    assert world.run("benchmark", "linear.py", "--runtime", "ort") == 3
    assert "--runtime ort needs onnxruntime and onnx and onnxscript." in capsys.readouterr().err
    monkeypatch.undo()


def test_help_shows_six_verbs_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    first, more = capsys.readouterr().out.partition("Commands:")[2].split("More:")
    shown = [line.split()[0] for line in first.splitlines() if line.strip()]
    assert shown == ["benchmark", "report", "compile", "bringup", "perf", "app"]
    assert {line.split()[0] for line in more.splitlines() if line[2:3].strip()} == set(verbs.names()) - set(shown)


def test_models_are_listed_by_label(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "list", "--labels", "name::linear", "test_group::selftest", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["models"]
    assert (found["corpus"], found["name"], found["labels"]["author"]) == ("selftest", "linear", ["proveout"])
    assert found["about"].startswith("One linear layer")


@pytest.mark.slow
def test_the_shell_completes_verbs_and_options() -> None:
    def completed(line: str) -> str:
        asked = {"_PROVEOUT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
        done = subprocess.run([PROVEOUT], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60)
        return done.stdout

    assert "benchmark" in completed("proveout bench")
    assert "--search-dir" in completed("proveout benchmark --sea")
    assert completed("proveout benchmark --search-dir self").split() == ["selftest"]
    assert "cpu,sim:p150" in completed("proveout benchmark --device cpu,sim:p1")


def test_no_verb_s_summary_is_cut_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = run("--help").stdout
    assert "..." not in listed.split("Commands:")[1]


def test_the_scripts_with_a_text_in_their_name_are_listed(capsys):
    assert cli.main(["models", "list", "resnet18", "--json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)["models"]]
    assert "resnet18" in names
    assert all("resnet18" in name for name in names)
    assert cli.main(["models", "list", "no such model"]) == 2
    assert "proveout models list" in capsys.readouterr().err


def test_a_device_named_alone_is_shown(capsys):
    assert cli.main(["devices", "sim:n150"]) == 0
    alone = capsys.readouterr().out
    assert cli.main(["devices", "show", "sim:n150"]) == 0
    assert capsys.readouterr().out == alone


def test_kernels_of_an_op_are_functions_and_its_note_a_whole_sentence(capsys):
    assert cli.main(["ops", "_embedding_bag.default", "--json"]) == 0
    (op,) = json.loads(capsys.readouterr().out)["ops"]
    assert "ttnn.embedding" in op["kernels"]
    assert not [name for name in op["kernels"] if not name.rpartition(".")[2].islower()]
    assert op["doc"].endswith(".")


def test_eager_is_among_the_places_that_compare_names(tmp_path, capsys):
    (tmp_path / "net.py").write_text("")
    assert cli.main(["compare", f"{tmp_path}/net.py@eagr", f"{tmp_path}/net.py@cpu"]) == 2
    assert "Did you mean 'eager'?" in capsys.readouterr().err


def test_rows_of_one_model_with_and_without_a_trace_do_not_read_alike():
    plain = make_record()
    settings = dataclasses.replace(plain.job.settings, trace=True, queues=2)
    traced = dataclasses.replace(plain, job=dataclasses.replace(plain.job, settings=settings))
    assert numbers(row(traced)) == f"{numbers(row(plain))} trace 2 queues"
