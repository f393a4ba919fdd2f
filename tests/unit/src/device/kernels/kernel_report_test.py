#!/usr/bin/env python3
"""kernel_report.py on reports that are right and wrong."""
import unittest

import kernel_report

NAMES = {"ho_a", "ho_b"}


def report(name, target, stack="0", stores="0", loads="0"):
    return (f"ptxas info    : Compiling entry function '{name}' for '{target}'\n"
            f"ptxas info    : Function properties for {name}\n"
            f"    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
            "ptxas info    : Used 30 registers\n")


def full_report():
    return [report(name, target) for target in kernel_report.TARGETS for name in sorted(NAMES)]


class KernelReport(unittest.TestCase):
    def test_a_full_report_without_spills_passes(self):
        self.assertEqual(kernel_report.faults_in("".join(full_report()), NAMES), [])

    def test_each_kind_of_local_memory_is_a_fault(self):
        for kind in ("stack", "stores", "loads"):
            log = "".join(full_report()[1:]) + report("ho_a", "sm_80", **{kind: "8"})
            faults = kernel_report.faults_in(log, NAMES)
            self.assertEqual(len(faults), 1)
            self.assertIn("ho_a for sm_80", faults[0])

    def test_a_kernel_that_is_missing_for_one_target_is_named(self):
        faults = kernel_report.faults_in("".join(full_report()[:-1]), NAMES)
        self.assertEqual(faults, ["not compiled for sm_100: ho_b"])

    def test_the_names_of_a_kernel_list_are_found(self):
        text = "#define LIST(X)  \\\n  X(ho_a, Integer<int>)  \\\n  X(ho_b, Float32)\n"
        self.assertEqual(kernel_report.names_of(text), {"ho_a", "ho_b"})


if __name__ == "__main__":
    unittest.main()
