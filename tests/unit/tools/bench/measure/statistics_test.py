#!/usr/bin/env python3
"""Intervals of order statistics and ratios of pairs."""
import itertools
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[5] / "tools" / "bench"))
# pylint: disable=wrong-import-position
from measure.statistics import Spread, largest_difference, mean_of_last, order_interval, paired_ratio  # noqa: E402


class Statistics(unittest.TestCase):
    def test_eleven_values_take_the_second_and_the_tenth(self):
        interval = order_interval([5, 3, 11, 1, 7, 9, 2, 4, 6, 8, 10])
        self.assertEqual((interval.low, interval.high), (2, 10))
        self.assertAlmostEqual(interval.level, 1 - 24 / 2048)

    def test_ranks_of_the_interval_follow_the_sign_test(self):
        # Count of values: the rank of the lower end, from tables of the sign test at 95 %.
        for count, rank in {6: 1, 8: 1, 9: 2, 11: 2, 12: 3, 15: 4, 20: 6, 25: 8, 50: 18}.items():
            interval = order_interval(range(1, count + 1))
            self.assertEqual((interval.low, interval.high), (rank, count + 1 - rank), count)
            self.assertGreaterEqual(interval.level, 0.95)

    def test_the_level_is_what_counting_gives(self):
        """Each of seven values is below the median or not: all 128 cases."""
        interval = order_interval(range(1, 8))
        below = [sum(case) for case in itertools.product((0, 1), repeat=7)]
        inside = sum(interval.low <= number <= 7 - interval.low for number in below)
        self.assertAlmostEqual(interval.level, inside / len(below))

    def test_too_few_values_say_their_own_level(self):
        interval = order_interval([3, 1, 2, 5, 4])
        self.assertEqual((interval.low, interval.high), (1, 5))
        self.assertAlmostEqual(interval.level, 0.9375)
        self.assertEqual(order_interval([7.0]).level, 0)

    def test_another_level_is_wider(self):
        self.assertEqual(order_interval(range(1, 12), 0.99).low, 1)
        self.assertEqual(order_interval(range(1, 12), 0.9).low, 3)

    def test_ratios_are_of_pairs_of_rounds(self):
        """A drift that meets both sides leaves no mark."""
        drift = [1, 2, 4, 8, 16, 32, 64]
        ratio = paired_ratio([3 * value for value in drift], drift)
        self.assertEqual((ratio.median, ratio.interval.low, ratio.interval.high, ratio.pairs), (3, 3, 3, 7))

    def test_a_round_without_its_pair_does_not_count(self):
        ratio = paired_ratio([2, None, 6, 8], [1, 2, None, 2])
        self.assertEqual((ratio.median, ratio.pairs), (3, 2))
        self.assertIsNone(paired_ratio([None], [1]))
        self.assertIsNone(paired_ratio([1], [0]))
        with self.assertRaises(ValueError):
            paired_ratio([1, 2], [1])

    def test_a_spread_has_median_and_ends(self):
        self.assertEqual(Spread.of([3, 1, 2]), Spread(2, 1, 3, 3))
        self.assertIsNone(Spread.of([]))

    def test_curves_are_compared_by_their_largest_difference(self):
        self.assertEqual(largest_difference([1, 2, 3], [1, 4, 2]), 2)
        self.assertEqual(mean_of_last([9, 1, 3], 2), 2)
        with self.assertRaises(ValueError):
            largest_difference([1], [1, 2])


if __name__ == "__main__":
    unittest.main()
