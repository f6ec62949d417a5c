import os
import time

from verification.bench import recorder


def test_bodies_in_several_processes_are_read_with_their_labels_and_moments(tmp_path, monkeypatch):
    monkeypatch.setenv(recorder.FOLDER, str(tmp_path))
    monkeypatch.setattr(recorder, "_file", None)
    begin = time.time_ns()
    recorder.record(begin)
    if (child := os.fork()) == 0:
        recorder.record("second")
        os._exit(0)
    os.waitpid(child, 0)
    end = time.time_ns()

    first, second = recorder.read(tmp_path)

    assert (first.label, first.pid) == (str(begin), os.getpid())
    assert (second.label, second.pid) == ("second", child)
    assert begin <= first.at <= second.at <= end

    recorder.forget(tmp_path)
    recorder.record(begin)

    (late,) = recorder.seconds_late(tmp_path)
    assert 0 <= late <= (time.time_ns() - begin) / 1e9
