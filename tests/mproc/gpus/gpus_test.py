#!/usr/bin/env python3
"""`horing topo` and `horing doctor` with GPUs, on the double of the CUDA driver, and without a driver.

usage: gpus_test.py HORING HORING_OF_TESTS

HORING is the program as it is installed, HORING_OF_TESTS the same with the double as its driver.
"""
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

HORING, OF_TESTS = sys.argv[1:3]
LAUNCHED = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def run(*command, **variables):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("HORING_", "CUDA_")) and name not in LAUNCHED}
    return subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, timeout=120)


def gpu_lines(output):
    return [line for line in output.splitlines() if "GPU" in line]


class Topo(unittest.TestCase):
    def topo(self, *arguments, program=OF_TESTS, **variables):
        answer = run(program, "topo", *arguments, **variables)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stdout)
        return answer.stdout

    def test_each_visible_gpu_has_one_line(self):
        lines = self.topo(HORING_TEST_CUDA_DEVICES="3").splitlines()
        first = next(i for i, line in enumerate(lines) if re.match(r"GPUs \(driver .*CUDA 12\.0\)$", line))
        for number in range(3):
            self.assertRegex(lines[first + 1 + number],
                             rf"^  GPU {number}: double {number}, 1\.0 GiB, 0000:3{'abc'[number]}:00\.0, NUMA "
                             r"[?\d]+, (NIC \S+ \(any: no PCI path known\)|no NIC)$")
        self.assertEqual(lines[first + 4], "interfaces")

    def test_a_launched_rank_learns_its_gpu(self):
        self.assertIn("\n  this rank (local rank 1) takes GPU 1 of 2\n", self.topo(**LAUNCHED))
        shared = self.topo(HORING_TEST_CUDA_DEVICES="1", CUDA_VISIBLE_DEVICES="7", **LAUNCHED)
        self.assertIn("this rank (local rank 1) takes GPU 0 of 1 (CUDA_VISIBLE_DEVICES=7)", shared)
        self.assertNotIn("this rank", self.topo())

    def test_json_has_the_same_as_the_text(self):
        cuda = json.loads(self.topo("--json", **LAUNCHED))["cuda"]
        self.assertEqual((cuda["why_none"], cuda["local_rank"], cuda["device_of_local_rank"]), ("", 1, 1))
        self.assertEqual([(gpu["number"], gpu["name"], gpu["memory_bytes"], gpu["pci"]) for gpu in cuda["devices"]],
                         [(0, "double 0", 1 << 30, "0000:3a:00.0"), (1, "double 1", 1 << 30, "0000:3b:00.0")])
        self.assertEqual(len({gpu["uuid"] for gpu in cuda["devices"]}), 2)

    def test_descriptions_of_other_hosts_ask_no_driver(self):
        description = "pack:1 core:2 pu:1; nic=eth0,numa=0,addr=10.1.0.1/24"
        self.assertEqual(gpu_lines(self.topo("--synthetic", description)), [])
        self.assertIsNone(json.loads(self.topo("--json", "--synthetic", description))["cuda"])

    def test_what_is_wrong_with_a_driver_is_one_line(self):
        self.assertRegex("\n".join(gpu_lines(self.topo(HORING_TEST_CUDA_DEVICES="0"))),
                         r"\AGPUs: none: the driver \(.*\) shows this process no GPU; look at .*CUDA_VISIBLE_DEVICES\Z")
        self.assertRegex("\n".join(gpu_lines(self.topo(HORING_TEST_CUDA_FAIL="device_name:1:800"))),
                         r"\AGPUs: none: device 0: cuDeviceGetName: CUDA_ERROR_NOT_PERMITTED.*\Z")

    def test_without_a_driver_one_line_says_why(self):
        try:
            ctypes.CDLL("libcuda.so.1")
            self.skipTest("this machine has a CUDA driver")
        except OSError:
            pass
        output = self.topo(program=HORING)
        self.assertRegex("\n".join(gpu_lines(output)),
                         r"\AGPUs: none: no CUDA driver: .*; install NVIDIA's driver, or use host memory\Z")
        cuda = json.loads(self.topo("--json", program=HORING))["cuda"]
        self.assertIn("no CUDA driver", cuda["why_none"])
        self.assertEqual(cuda["devices"], [])

    def test_the_installed_program_knows_no_double(self):
        self.assertNotIn(b"HORING_TEST_CUDA", pathlib.Path(HORING).read_bytes())
        self.assertIn(b"HORING_TEST_CUDA", pathlib.Path(OF_TESTS).read_bytes())


class Doctor(unittest.TestCase):
    def doctor(self, sizes, *arguments, program=OF_TESTS, **variables):
        return run(HORING, "run", "-n", sizes, "--emulate", "none", "--quiet", "--rank0-raw", "--timeout", "100", "--",
                   program, "doctor", *arguments, **variables)

    def test_each_gpu_of_a_job_is_measured_once(self):
        answer = self.doctor("1x2", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        cuda = json.loads(answer.stdout)["cuda"]
        self.assertEqual([(gpu["rank"], gpu["number"]) for gpu in cuda["devices"]], [(0, 0), (0, 1)])
        for gpu in cuda["devices"]:
            self.assertEqual(gpu["failure"], "")
            self.assertEqual(sorted(gpu["bytes_per_second"]), ["both_ways", "from_device", "to_device", "within"])
            self.assertGreater(min(gpu["bytes_per_second"].values()), 0)
        self.assertEqual([(pair["from"], pair["to"]) for pair in cuda["pairs"]], [(0, 1), (1, 0)])
        self.assertEqual((cuda["ranks_without"], cuda["why_none"]), ([], ""))

    def test_the_table_has_gpus_and_their_rates(self):
        answer = self.doctor("2x1", HORING_TEST_CUDA_DEVICES="1")
        # Of two measured rates one may be much the slower: the result says so, and so does the status.
        healthy = re.search(r"(?m)^result: healthy", answer.stdout)
        self.assertEqual(answer.returncode, 0 if healthy else 1, answer.stderr)
        self.assertRegex(answer.stdout, r"(?m)^host +rank +GPU +name +GiB +PCI +NUMA +driver +NIC$")
        self.assertRegex(answer.stdout, r"(?m)^\S+ +0 +0 +double 0 +1\.0 +0000:3a:00\.0 .*CUDA 12\.0 +rail0 \(any: ")
        self.assertRegex(answer.stdout, r"(?m)^host +GPU +to device GB/s +from device +both at once +within$")
        self.assertRegex(answer.stdout, r"(?m)^\S+ +0( +\d+\.\d){4}$")
        self.assertEqual(answer.stdout.count("double 0"), 1)
        self.assertRegex(answer.stdout, r"(?m)^result: (healthy|\d+ of \d+ links are slow)")

    def test_a_gpu_that_fails_is_named_in_the_result(self):
        answer = self.doctor("1x1", HORING_TEST_CUDA_DEVICES="1", HORING_TEST_CUDA_FAIL="copy_async:1:1")
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertRegex(answer.stdout, r"(?m)^result: GPUs fail: GPU 0 of rank 0 \(.*\): device 0: cuMemcpyAsync: ")

    def test_a_job_without_gpus_has_one_line_more(self):
        answer = self.doctor("1x2", HORING_TEST_CUDA_DEVICES="0")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual([line[:11] for line in gpu_lines(answer.stdout)], ["GPUs: none:"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
