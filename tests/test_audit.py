"""The journal behind the event loop: loss-free at an ordinary end, honest about loss otherwise (A9)."""

import io
import logging
import stat
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from proxy import audit
from proxy.audit import AuditJournal, FileSink, StreamSink, read_journal
from proxy.audit_records import line, lost_record
from proxy.core.messages import RequestEdit
from proxy.core.runs import Outcome
from proxy.core.verdicts import Action
from proxy.redaction import DEFAULT_KEYS

from . import sample_run as sample


class Journal(NamedTuple):
    """The settings that a journal reads."""

    path: Path | str | None
    max_bytes: int = 0
    keep: int = 3
    redact: tuple[str, ...] = DEFAULT_KEYS


class Disk:
    """A sink that can be full or stand still."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.full_for = 0
        self.moves = threading.Event()
        self.moves.set()
        self.reached = threading.Event()
        self.closed = False

    def write(self, line: bytes) -> None:
        self.reached.set()
        self.moves.wait()
        if self.full_for:
            self.full_for -= 1
            raise OSError(28, "No space left on device")
        self.lines.append(line)

    def close(self) -> None:
        self.closed = True


def number_of(record: Any) -> int:
    return int(record["step"])


async def test_what_was_recorded_is_all_there_in_order_after_the_end(tmp_path: Path) -> None:
    """A9, B4, B6."""
    path = tmp_path / "logs" / "audit.jsonl"
    journal = AuditJournal.from_settings(Journal(path))
    run = sample.run(outcome=Outcome.COMPLETED)

    journal.decision(run, request_id="r", phase="request", verdicts=[], action=Action.PASS, at=sample.AT)
    for number in range(500):
        journal.step(run, sample.step(number=number), request_id="r", at=sample.AT)
    journal.request_edited(run, RequestEdit(note="x"), request_id="r")
    journal.request_edited(run, RequestEdit(), request_id="r")
    journal.run_ended(run, request_id="r")
    await journal.close()

    kinds = [record["kind"] for record in read_journal(path)]
    assert kinds == ["decision", *["step"] * 500, "request_edit", "run_end"]
    assert [number_of(record) for record in read_journal(path) if record["kind"] == "step"] == list(
        range(500)
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert journal.lost == 0


async def test_a_step_says_what_the_request_that_proposed_it_took() -> None:
    """A7, A9: tokens per step."""
    disk = Disk()
    journal = AuditJournal(disk)
    journal.answered(sample.run(), 1, 300)
    journal.step(sample.run(), sample.step(round=1), request_id="r")
    journal.step(sample.run(), sample.step(round=2), request_id="r")
    for number in range(audit.ROUNDS_REMEMBERED + 10):
        journal.answered(sample.run(), number + 2, 1)
    await journal.close()

    assert [b'"tokens_in":300' in text for text in disk.lines] == [True, False]
    assert len(journal._tokens) == audit.ROUNDS_REMEMBERED


async def test_secrets_are_redacted_by_the_configured_keys(tmp_path: Path) -> None:
    path = tmp_path / "a"
    journal = AuditJournal.from_settings(Journal(path, redact=("colour",)))
    journal.step(sample.run(), sample.step(arguments='{"colour":"CANARY"}'), request_id="r")
    await journal.close()

    assert "CANARY" not in path.read_text()


async def test_what_was_recorded_so_far_can_be_waited_for() -> None:
    disk = Disk()
    journal = AuditJournal(disk)
    for number in range(100):
        journal.step(sample.run(), sample.step(number=number), request_id="r")
    await journal.flush()

    assert len(disk.lines) == 100

    await journal.close()
    await journal.flush()


async def test_without_a_path_nothing_is_written_and_nothing_lost() -> None:
    for path in (None, ""):
        journal = AuditJournal.from_settings(Journal(path))
        journal.step(sample.run(), sample.step(), request_id="r")
        await journal.close()

        assert journal.lost == 0


async def test_a_dash_means_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr("sys.stdout", out)
    journal = AuditJournal.from_settings(Journal("-"))
    journal.step(sample.run(), sample.step(), request_id="r")
    await journal.close()

    assert isinstance(out.buffer, io.BytesIO)
    assert out.buffer.getvalue().count(b"\n") == 1
    assert not out.buffer.closed


def test_a_file_that_cannot_be_opened_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        AuditJournal.from_settings(Journal(tmp_path))


async def test_a_disk_that_stands_still_costs_records_but_never_a_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Disk()
    disk.moves.clear()
    journal = AuditJournal(disk, queue_length=10)

    journal.step(sample.run(), sample.step(number=0), request_id="r")
    disk.reached.wait()
    for number in range(1, 31):  # ten wait, twenty are lost
        journal.step(sample.run(), sample.step(number=number), request_id="r")
    assert journal.lost == 20
    assert [record.message for record in caplog.records] == [
        "audit journal: records are being lost: the disk is too slow"
    ]
    disk.moves.set()
    await journal.close()

    assert len(disk.lines) == 12
    lost = [text for text in disk.lines if b'"lost"' in text]
    assert len(lost) == 1
    assert b'"count":20' in lost[0]
    assert disk.closed


async def test_a_full_disk_is_said_once_and_the_gap_is_shown_when_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Disk()
    disk.full_for = 5
    journal = AuditJournal(disk)
    for number in range(6):
        journal.step(sample.run(), sample.step(number=number), request_id="r")
    await journal.close()

    assert journal.lost == 5
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == 1
    assert [b'"lost"' in text for text in disk.lines] == [True, False]
    assert b'"count":5' in disk.lines[0]


async def test_a_record_that_cannot_be_made_does_not_stop_the_others() -> None:
    disk = Disk()
    journal = AuditJournal(disk)
    journal.step(sample.run(), sample.step(status="no status"), request_id="r")
    journal.step(sample.run(), sample.step(), request_id="r")
    await journal.close()

    assert journal.lost == 1
    assert len(disk.lines) == 2


async def test_after_the_end_records_are_counted_as_lost() -> None:
    disk = Disk()
    journal = AuditJournal(disk)
    await journal.close()
    await journal.close()
    journal.step(sample.run(), sample.step(), request_id="r")

    assert journal.lost == 1
    assert disk.lines == []


async def test_a_disk_that_hangs_does_not_keep_the_process(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    disk.moves.clear()
    journal = AuditJournal(disk)
    journal.step(sample.run(), sample.step(), request_id="r")
    disk.reached.wait()
    journal.step(sample.run(), sample.step(), request_id="r")
    await journal.close(seconds=0.01)

    assert "the disk hangs" in caplog.text
    disk.moves.set()
    journal._writer.join()


def test_a_file_is_rotated_by_size_and_only_so_many_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    sink = FileSink(path, max_bytes=100, keep=2)
    for number in range(10):
        sink.write(line(lost_record(number, sample.AT)))  # 57 bytes: one a file
    sink.close()

    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "audit.jsonl",
        "audit.jsonl.1",
        "audit.jsonl.2",
    ]
    assert [record["count"] for record in read_journal(path) if record["kind"] == "lost"] == [7, 8, 9]
    assert all(each.stat().st_size <= 100 for each in tmp_path.iterdir())
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in tmp_path.iterdir())


def test_without_kept_files_rotation_begins_anew(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "a", max_bytes=100, keep=0)
    for number in range(3):
        sink.write(line(lost_record(number, sample.AT)))
    sink.close()

    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_two_processes_can_share_a_file_through_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "a"
    one, other = FileSink(path, 100, 9), FileSink(path, 100, 9)
    for number in range(6):
        (one, other)[number % 2].write(line(lost_record(number, sample.AT)))
    one.close()
    other.close()

    found = [record["count"] for record in read_journal(path) if record["kind"] == "lost"]
    assert sorted(found) == list(range(6))


def test_a_log_shipper_may_take_the_file_away(tmp_path: Path) -> None:
    path = tmp_path / "a"
    sink = FileSink(path, 60, 2)
    sink.write(line(lost_record(1, sample.AT)))
    path.unlink()
    sink.write(line(lost_record(2, sample.AT)))
    sink.close()

    assert [record["count"] for record in read_journal(path) if record["kind"] == "lost"] == [2]


def test_a_torn_last_line_is_left_out_and_later_ones_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    whole = line(lost_record(1, sample.AT))
    path.write_bytes(whole + whole[:20])

    assert len(list(read_journal(path))) == 1

    sink = FileSink(path)
    sink.write(whole)
    sink.close()

    assert len(list(read_journal(path))) == 2


def test_a_stream_stays_open() -> None:
    stream = io.BytesIO()
    sink = StreamSink(stream)
    sink.write(b"x\n")
    sink.close()

    assert stream.getvalue() == b"x\n"


def test_a_journal_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no audit journal"):
        list(audit.read_journal(tmp_path / "none"))
