"""The package horing over a built libhoring: HORING_LIBRARY, and HORING_PROGRAM, which starts ranks.

A test's ranks are processes of `horing run`, each of which runs one function of this file.
"""

import array
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from types import SimpleNamespace

import horing
from horing.buffers import Buffer, buffer_of

LONG_S = 60.0


# --- what ranks do. Each prints "ok" at its end.


@contextlib.contextmanager
def fails_with(kind, *texts):
    """The block must raise a `kind` whose text has all of `texts`."""
    try:
        yield
    except kind as error:
        assert all(text in str(error) for text in texts), error
    else:
        raise AssertionError(f"no {kind.__name__} about {', '.join(texts)}")


def rank_adds_in_every_kind_of_memory(comm):
    for data in (array.array("f", [1.0, 2.0]), memoryview(array.array("f", [1.0, 2.0]))):
        comm.all_reduce(data)
        assert list(data) == [2.0, 4.0], list(data)
    sent, got = bytearray([comm.rank]), bytearray(2)
    request = comm.all_gather(sent, got)
    assert got == bytearray([0, 1]), got
    assert request.report.total_ns > 0
    empty = array.array("f")
    comm.all_reduce(empty)
    with fails_with(horing.InvalidArgumentError, "read-only"):
        comm.all_reduce(bytes(4))


def rank_learns_why_another_left(comm):
    if comm.rank == 1:
        try:
            with comm:
                raise ValueError("the data set is gone")
        except ValueError:
            return
    with fails_with(horing.HoringError, "the data set is gone"):
        comm.all_reduce(array.array("f", [1.0]))


def rank_counts_while_it_waits(comm):
    if comm.rank == 1:
        shared_store().wait("counted", LONG_S)
        comm.all_reduce(array.array("f", [1.0]), timeout=LONG_S)
        return
    waits = threading.Event()

    def count():
        waits.wait()
        for _ in range(50):
            time.sleep(0.001)
        shared_store().set("counted", b"")  # the call cannot end before

    thread = threading.Thread(target=count)
    thread.start()
    waits.set()
    comm.all_reduce(array.array("f", [1.0]), timeout=LONG_S)
    thread.join()


def rank_is_interrupted(comm):
    if comm.rank == 1:
        shared_store().wait("interrupted", LONG_S)
        return
    # A shell that starts a job in the background has it ignore the signal; a terminal's user does not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        comm.all_reduce(array.array("f", [1.0]), timeout=LONG_S)
    except KeyboardInterrupt:
        comm.abort("interrupted")
    else:
        raise AssertionError("it was not interrupted")
    finally:
        shared_store().set("interrupted", b"")


def rank_drops_its_request(comm):
    size = 1 << 20
    result = array.array("f", bytes(4 * size))
    send = array.array("f", [comm.rank + 1.0] * size)
    comm.all_reduce(send, result, wait=False)
    del send
    filler = [array.array("f", [9.0] * size) for _ in range(4)]
    comm.barrier()
    while comm._dropped:
        comm._free_ended(1)
    assert set(result) == {3.0}, set(result)
    del filler


def rank_is_interrupted_while_it_waits_for_others(comm):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        for where in ({"store": FolderStore(folder)}, {"rendezvous": f"file://{folder}/meet"}):
            timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                horing.Communicator(1, 2, rendezvous_timeout=LONG_S, **where)
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError("it was not interrupted")


def rank_passes_numbers_that_c_would_cut(comm):
    data = array.array("f", [1.0])
    calls = (
        lambda: horing.Communicator(2**32, 1),
        lambda: comm.broadcast(data, 2**32),
        lambda: comm.send(data, 0, 2**32 + 5),
        lambda: comm.recv(data, -(2**33)),
        lambda: comm.split(2**31),
    )
    for index, call in enumerate(calls):
        try:
            call()
        except horing.InvalidArgumentError as error:
            assert "32 bits" in str(error), (index, error)
        else:
            raise AssertionError(f"call {index} was not refused")


def rank_drops_a_communicator_with_a_receive(comm):
    made = comm.split(0)
    made.recv(array.array("f", [0.0]), 1 - comm.rank, wait=False, timeout=1e6)
    del made
    comm.barrier()


def rank_closes_with_a_dropped_send(comm):
    size = 1 << 20  # more than the peer's memory takes before it has called
    if comm.rank == 0:
        comm.send(array.array("f", [5.0] * size), 1, 7, wait=False)
        shared_store().set("closes", b"")
        comm.close()
        print("ok", flush=True)
        os._exit(0)  # what is not sent by now never will be
    shared_store().wait("closes", LONG_S)
    comm.recv(data := array.array("f", bytes(4 * size)), 0, 7)
    assert set(data) == {5.0}, set(data)


def rank_ends_with_an_open_receive(comm):
    """The interpreter's own end, with a request that it clears last."""
    global held
    if comm.rank == 0:
        held = comm.recv(floats(0), 1, 5, wait=False, timeout=1e6)  # nobody sends it
        return
    with fails_with(horing.AbortedError, "rank 0", "its program ended with recv not complete"):
        comm.recv(floats(0), 0, 6, timeout=LONG_S)


def rank_waits_in_a_circle(comm):
    """Rank 0 is in what rank 1 has not entered, and the other way round."""
    for goes_on in (False, True):
        one, two = comm.split(0), comm.split(0)
        expected = horing.TimeoutError if goes_on else horing.MismatchError
        if comm.rank == 0:
            shared_store().wait(f"entered {goes_on}", LONG_S)
            try:
                one.all_reduce(floats(0), timeout=3.0)
            except expected as error:
                assert ("in a circle" in str(error)) != goes_on, error
            else:
                raise AssertionError("it went on without rank 1")
            if goes_on:
                two.all_reduce(floats(0))
            continue
        request = two.all_reduce(floats(0), wait=False)
        shared_store().set(f"entered {goes_on}", b"")
        if goes_on:  # between its limited waits it may do something else
            while not request.wait(timeout=0.2):
                pass
            continue
        with fails_with(horing.MismatchError, "in a circle"):
            request.wait()


def rank_asks_twice_why_it_failed(comm):
    if comm.rank == 1:
        shared_store().wait("told", LONG_S)
        return
    request = comm.recv(array.array("f", [0.0]), 1, wait=False, timeout=0.2)
    for _ in range(2):
        try:
            request.wait()
        except horing.TimeoutError:
            continue
        raise AssertionError("a failure was told once only")
    shared_store().set("told", b"")


def rank_closes_and_is_refused(comm):
    comm.close()
    comm.close()
    with fails_with(horing.InvalidArgumentError, "closed"):
        comm.barrier()


def rank_times_out(comm):
    if comm.rank == 1:
        shared_store().wait("over", LONG_S)
        return
    try:
        comm.all_reduce(array.array("f", [1.0]), timeout=0.3)
    except TimeoutError as error:
        assert isinstance(error, horing.TimeoutError), type(error)
    else:
        raise AssertionError("no deadline")
    shared_store().set("over", b"")


def floats(*values):
    return array.array("f", values)


def rank_calls_every_collective(comm):
    """Of two ranks, each with floats that start at its rank."""
    me, other = comm.rank, 1 - comm.rank
    got = floats(0, 0)
    comm.reduce_scatter(floats(1, 2), mine := floats(0))
    assert list(mine) == [2.0 * (me + 1)], mine
    comm.all_gather_counts(floats(*[me] * (me + 1)), three := floats(9, 9, 9), [1, 2])
    assert list(three) == [0, 1, 1], three
    part = floats(*[0] * (me + 1))
    comm.reduce_scatter_counts(floats(1, 2, 3), part, [1, 2])
    assert list(part) == ([2.0] if me == 0 else [4.0, 6.0]), part
    data = floats(me, me)
    comm.broadcast(data, 1)
    assert list(data) == [1, 1], data
    comm.all_to_all(floats(10 * me, 10 * me + 1), got)
    assert list(got) == [me, 10 + me], got
    comm.all_to_all_counts(floats(me, me, me), [1, 2], uneven := floats(*[9] * (2 * (me + 1))), [me + 1] * 2)
    assert list(uneven) == [0] * (me + 1) + [1] * (me + 1), uneven
    comm.gather(floats(me), got if me == 1 else None, 1)
    assert me == 0 or list(got) == [0, 1], got
    comm.scatter(floats(5, 6) if me == 0 else None, mine, 0)
    assert list(mine) == [5.0 + me], mine
    comm.reduce(floats(me + 1), mine if me == 0 else None, horing.ReduceOp.PROD, 0)
    assert me == 1 or list(mine) == [2.0], mine
    bits = array.array("i", [1 << me])
    comm.all_reduce(bits, op=horing.ReduceOp.BOR)
    assert bits[0] == 3, bits
    comm.all_reduce(mine := floats(4), op=horing.ReduceOp.PREMUL_SUM, scale=0.25)
    assert list(mine) == [2.0], mine
    request = comm.barrier(wait=False)
    assert request.wait(LONG_S)
    with fails_with(horing.InvalidArgumentError, "recv"):
        comm.all_gather(floats(1), floats(0, 0, 0))
    if me == 0:
        with fails_with(horing.InvalidArgumentError, "send has INT32 elements, recv FLOAT32"):
            comm.scatter(array.array("i", [5, 6]), floats(0), 0)
    assert comm.world_size == 2 and comm.group_of(other) == comm.group_of(me)


def rank_passes_messages(comm):
    other = 1 - comm.rank
    first, second, own = floats(0), floats(0), floats(0)
    receives = [comm.recv(first, other, 7, wait=False), comm.recv(second, tag=8, wait=False)]
    comm.send(floats(comm.rank + 0.5), other, 8)  # the tags decide, not the order
    comm.send(floats(comm.rank), other, 7)
    for request in receives:
        request.wait()
    assert (first[0], second[0]) == (other, other + 0.5), (first, second)
    assert receives[1].source == other
    waiting = comm.recv(own, comm.rank, wait=False)
    comm.send(floats(3), comm.rank)
    waiting.wait()
    assert own[0] == 3


def rank_waits_in_several_threads(comm):
    count, wrong = 8, []
    results = [floats(comm.rank + each) for each in range(count)]
    requests = [comm.all_reduce(result, wait=False) for result in results]

    def finish(index):
        requests[index].wait()
        if list(results[index]) != [2.0 * index + 1]:
            wrong.append((index, results[index]))

    threads = [threading.Thread(target=finish, args=(index,)) for index in reversed(range(count))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def rank_splits(comm):
    alone = comm.split(comm.rank)
    data = floats(comm.rank)
    alone.all_reduce(data)
    assert list(data) == [comm.rank] and alone.world_size == 1
    turned = comm.split(0, -comm.rank)
    assert turned.rank == 1 - comm.rank
    assert comm.split(-1 if comm.rank else 0) is None or comm.rank == 0
    turned.close()
    comm.all_reduce(data)
    assert list(data) == [1.0], data


class FolderStore:
    """A store of files, as a job's shared file system offers."""

    def __init__(self, folder):
        self._folder = folder

    def _path(self, key):
        return os.path.join(self._folder, key.replace("/", "_"))

    def set(self, key, value):
        with open(self._path(key) + f".{os.getpid()}", "wb") as file:
            file.write(value)
        os.rename(file.name, self._path(key))

    def wait(self, key, timeout):
        until = time.monotonic() + timeout
        while not os.path.exists(self._path(key)):
            if time.monotonic() > until:
                raise TimeoutError(f"nobody set {key}")
            time.sleep(0.01)

    def get(self, key):
        with open(self._path(key), "rb") as file:
            return file.read()


def shared_store():
    """What the ranks of a test tell each other beside their communicator."""
    return FolderStore(os.environ["STORE_FOLDER"])


def rank_joins_through_a_store(comm):
    with horing.Communicator(
        comm.rank, 2, store=shared_store(), timeout=LONG_S
    ) as made:
        made.all_reduce(data := floats(made.rank))
        assert list(data) == [1.0], data


def rank_finds_nobody_in_a_store(comm):
    if comm.rank == 1:
        os.environ["HORING_CONNECT_TIMEOUT_MS"] = "500"
        try:
            horing.Communicator(1, 2, store=shared_store())
        except TimeoutError as error:
            assert "nobody set" in str(error), error
        else:
            raise AssertionError("it met nobody")


def run_ranks(action):
    launcher = [os.environ["HORING_PROGRAM"], "run", "-n", "2"]
    command = [*launcher, sys.executable, __file__, action.__name__]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "STORE_FOLDER": folder}
        done = subprocess.run(
            command, text=True, capture_output=True, timeout=10 * LONG_S, env=environment
        )
    if done.returncode != 0 or done.stdout.count("ok") != 2:
        raise AssertionError(
            f"{action.__name__}: status {done.returncode}\n{done.stdout}{done.stderr}"
        )


class Ranks(unittest.TestCase):
    def test_every_kind_of_memory_is_added_in_place(self):
        run_ranks(rank_adds_in_every_kind_of_memory)

    def test_an_exception_ends_the_others_with_its_text(self):
        run_ranks(rank_learns_why_another_left)

    def test_other_threads_run_while_a_rank_waits(self):
        run_ranks(rank_counts_while_it_waits)

    def test_an_interrupt_ends_a_wait(self):
        run_ranks(rank_is_interrupted)

    def test_an_interrupt_ends_the_wait_for_other_ranks(self):
        run_ranks(rank_is_interrupted_while_it_waits_for_others)

    def test_numbers_beyond_32_bits_are_refused(self):
        run_ranks(rank_passes_numbers_that_c_would_cut)

    def test_a_dropped_communicator_waits_for_nobody(self):
        run_ranks(rank_drops_a_communicator_with_a_receive)

    def test_a_closed_communicator_has_sent_what_was_dropped(self):
        run_ranks(rank_closes_with_a_dropped_send)

    def test_a_program_ends_and_the_others_learn_what_was_open(self):
        run_ranks(rank_ends_with_an_open_receive)

    def test_a_circle_of_waits_is_found_and_limited_waits_are_none(self):
        run_ranks(rank_waits_in_a_circle)

    def test_a_failure_is_told_by_every_wait(self):
        run_ranks(rank_asks_twice_why_it_failed)

    def test_a_dropped_request_keeps_its_memory(self):
        run_ranks(rank_drops_its_request)

    def test_a_closed_communicator_refuses_calls(self):
        run_ranks(rank_closes_and_is_refused)

    def test_every_collective_gives_its_result(self):
        run_ranks(rank_calls_every_collective)

    def test_messages_match_by_tag_and_from_anyone(self):
        run_ranks(rank_passes_messages)

    def test_several_threads_wait_for_requests(self):
        run_ranks(rank_waits_in_several_threads)

    def test_a_communicator_is_split_and_goes_on(self):
        run_ranks(rank_splits)

    def test_ranks_meet_through_a_store_of_files(self):
        run_ranks(rank_joins_through_a_store)

    def test_a_store_without_the_others_is_a_timeout(self):
        run_ranks(rank_finds_nobody_in_a_store)

    def test_a_deadline_is_python_s_timeout_too(self):
        run_ranks(rank_times_out)


class OnlyDlpack:
    """An array without the buffer protocol."""

    def __init__(self, data):
        self._data = data

    def __dlpack__(self, **options):
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._data.__dlpack_device__()


class Buffers(unittest.TestCase):
    def test_the_types_of_array_are_horing_s(self):
        of_codes = {"b": "INT8", "h": "INT16", "i": "INT32", "q": "INT64", "Q": "UINT64", "d": "FLOAT64"}
        for code, dtype in of_codes.items():
            found = buffer_of(array.array(code, [1, 2]), writable=True, what="send")
            self.assertEqual((found.dtype, found.count), (horing.DType[dtype], 2))

    def test_elements_that_are_apart_are_refused(self):
        with self.assertRaisesRegex(horing.InvalidArgumentError, "contiguous"):
            buffer_of(memoryview(bytearray(8))[::2], writable=True, what="send")

    def test_read_only_memory_is_sent_but_not_written(self):
        self.assertEqual(buffer_of(b"abc", writable=False, what="send").count, 3)
        with self.assertRaisesRegex(horing.InvalidArgumentError, "read-only"):
            buffer_of(b"abc", writable=True, what="recv")

    def test_what_has_no_memory_is_named_in_the_error(self):
        with self.assertRaisesRegex(horing.InvalidArgumentError, "recv: list"):
            buffer_of([1, 2], writable=True, what="recv")

    def test_memory_of_other_devices_is_refused_by_its_type(self):
        tensor = SimpleNamespace(__dlpack__=None, __dlpack_device__=lambda: (10, 0))
        with self.assertRaisesRegex(horing.UnsupportedError, "type 10"):
            buffer_of(tensor, writable=True, what="send")

    def test_arrays_on_a_device_are_made_ready_on_the_default_stream(self):
        requested = []

        class OnDevice(OnlyDlpack):
            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self, *, stream=None):
                requested.append(stream)
                raise BufferError("no GPU here")

        with self.assertRaisesRegex(horing.InvalidArgumentError, "no GPU here"):
            buffer_of(OnDevice(None), writable=True, what="send")
        self.assertEqual(requested, [1])  # DLPack's number of CUDA's legacy default stream

    def test_memory_of_a_cuda_device_needs_a_communicator_with_one(self):
        with horing.Communicator(0, 1) as alone:
            self.assertIsNone(alone.device)
            on_device = Buffer(4096, 1, horing.DType.FLOAT32, None, 0)
            with self.assertRaisesRegex(horing.UnsupportedError, "made without a device"):
                alone.all_reduce(on_device, on_device)
            with self.assertRaisesRegex(horing.UnsupportedError, "copy it there first"):
                alone.send(on_device, 0)

    def test_a_device_is_a_number_or_that_of_the_local_rank(self):
        for wrong in (-1, "cuda", 2**40):
            with self.assertRaises(horing.InvalidArgumentError):
                horing.Communicator(0, 1, device=wrong)
        with self.assertRaisesRegex(horing.InvalidArgumentError, "LOCAL_RANK"):
            horing.Communicator(0, 1, device="local_rank")

    def test_a_machine_without_cuda_says_so(self):
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            with self.assertRaisesRegex(horing.UnsupportedError, "no CUDA driver"):
                horing.Communicator(0, 1, device=0)
        else:
            self.skipTest("this machine has a CUDA driver")

    def test_every_type_of_numpy_has_one_of_ours_or_an_error(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        ours = {
            "i1": "INT8", "u1": "UINT8", "i2": "INT16", "u2": "UINT16", "i4": "INT32", "u4": "UINT32",
            "i8": "INT64", "u8": "UINT64", "f2": "FLOAT16", "f4": "FLOAT32", "f8": "FLOAT64",
            "c8": "COMPLEX64", "c16": "COMPLEX128", "?": "BOOL",
        }
        for code, dtype in ours.items():
            data = numpy.zeros((2, 3), code)
            for value in (data, OnlyDlpack(data)):
                found = buffer_of(value, writable=True, what="send")
                self.assertEqual((found.dtype, found.count), (horing.DType[dtype], 6), code)
                self.assertEqual(found.address, data.ctypes.data)
        for code in ("M8[s]", "U3", "O"):
            with self.assertRaises(horing.HoringError, msg=code):
                buffer_of(numpy.zeros(2, code), writable=True, what="send")
        with self.assertRaisesRegex(horing.InvalidArgumentError, "contiguous"):
            buffer_of(OnlyDlpack(numpy.zeros((4, 4))[:, 1]), writable=True, what="send")

    def test_the_other_byte_order_is_refused(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        with self.assertRaisesRegex(horing.UnsupportedError, ">"):
            buffer_of(numpy.zeros(2, ">f4"), writable=True, what="send")
        self.assertEqual(buffer_of(numpy.zeros((), "f4"), writable=True, what="send").count, 1)
        self.assertEqual(buffer_of(numpy.zeros((0, 3), "f4"), writable=True, what="send").count, 0)


def main():
    if len(sys.argv) == 2 and sys.argv[1].startswith("rank_"):
        comm = horing.Communicator(timeout=120.0)
        globals()[sys.argv[1]](comm)
        print("ok", flush=True)
        return
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
