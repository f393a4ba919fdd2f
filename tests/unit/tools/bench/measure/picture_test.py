#!/usr/bin/env python3
"""Labels that cover nothing; and drawings, also of the rows of tools/bench/gains, where matplotlib is there."""
import contextlib
import importlib.machinery
import importlib.util
import io
import itertools
import json
import pathlib
import runpy
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
BENCH = pathlib.Path(__file__).parents[5] / "tools" / "bench"
sys.path.insert(0, str(BENCH))
# pylint: disable=wrong-import-position
from measure import picture  # noqa: E402
from paro_gains import rows as gains  # noqa: E402

LOADER = importlib.machinery.SourceFileLoader("results", str(BENCH.parent / "results"))
results = importlib.util.module_from_spec(importlib.util.spec_from_loader("results", LOADER))
LOADER.exec_module(results)
BOUNDS = (0, 0, 600, 400)


def loss_picture(*arguments):
    """The status and the errors of tools/bench/loss-picture."""
    main = runpy.run_path(str(BENCH / "loss-picture"))["main"]
    errors = io.StringIO()
    with unittest.mock.patch.object(sys, "argv", ["loss-picture", *map(str, arguments)]), \
            contextlib.redirect_stderr(errors):
        return main(), errors.getvalue()


def rows(count):
    """So close to each other that labels beside the points would cover each other."""
    return [{"system": f"system{n}", "baseline": n % 3 == 0, "world_algorithm": "ho_ring", "compute_factor": 1,
             "step_s": 1 + n / 100, "steps_s": [1, 2], "memory_bytes": 5e7 + n * 1e6, "intra_bytes": 0, "inter_bytes": 1e6,
             "compute_s": 0.5, "exposed_s": 0.2, "idle_s": 0.1, "update_s": 0.1, "hooks_s": 0.1} for n in range(count)]


RESULT = {"name": "case", "results": rows(12), "groups": "4x4", "rails": 4, "rate": 200,
          "config": {"model": "some", "ranks": 16, "micro_batch": 1, "accumulation": 4, "compute_s": 2}}


def of_zero3(factor, seconds):
    """As RESULT's rows, of ZeRO-3 and of a strategy that takes a second."""
    return [{**row, "system": system, "compute_factor": factor, "step_s": step, "predicted_communication_s": 4}
            for row, system, step in zip(rows(2), ("zero3", "IIG"), (seconds, 1.0))]


class RowsOfGains(unittest.TestCase):
    def written(self, result, ratios=()):
        """The names of the pictures, and the rows of each file, by its name."""
        with tempfile.TemporaryDirectory() as folder:
            comments = gains.written(pathlib.Path(folder), result, ratios)
            pictures = [found for comment in comments for found in results.PICTURE.findall(comment)]
            for _, _, what in pictures:
                results.Selection(pathlib.Path(folder), what)  # raises where a column is not there
            return [name for name, *_ in pictures], {
                path.name: path.read_text().splitlines() for path in pathlib.Path(folder).iterdir()}

    def test_a_system_has_its_times_and_sizes(self):
        names, files = self.written(RESULT)
        self.assertEqual(names, ["case-time.svg", "case-memory.svg"])
        self.assertEqual(list(files), ["case.csv"])
        self.assertEqual(len(files["case.csv"]), 13)
        self.assertEqual(files["case.csv"][12], "system11,1110.0,1000.0,2000.0,57.7,500.0,200.0,100.0,100.0,100.0,"
                         "0.00,1.00,61.00")

    def test_without_ratios_nothing_is_asked_of_the_planner(self):
        self.assertEqual(len(self.written({**RESULT, "results": [{**rows(1)[0], "system": "zero3"}]})[0]), 2)

    def test_gains_over_computation_are_lines_where_it_takes_several_times(self):
        several = {**RESULT, "results": of_zero3(1, 3) + of_zero3(2, 2.5)}
        names, files = self.written(several, [("IIG", "zero3")])
        self.assertEqual(names[2:], ["case-gains.svg"])
        self.assertEqual(files["case-gains.csv"][1:], ["0.5,3.00,IIG / zero3", "1,2.50,IIG / zero3"])
        self.assertNotIn("case-gains.csv", self.written({**RESULT, "results": of_zero3(1, 3)}, [("IIG", "zero3")])[1])


class Boxes(unittest.TestCase):
    def assert_free(self, points, sizes):
        indices = picture.free_boxes(points, sizes, BOUNDS)
        for a, b in itertools.combinations(indices, 2):
            self.assertFalse(picture.overlap(a, b), (a, b))
        for box, (x, y) in itertools.product(indices, points):
            self.assertFalse(picture.overlap(box, (x - 2, y - 2, x + 2, y + 2)))
        for left, bottom, right, top in indices:
            self.assertTrue(left >= 0 and bottom >= 0 and right <= 600 and top <= 400)
        return indices

    def test_a_single_label_stands_to_the_right(self):
        (left, bottom, right, top), = self.assert_free([(100, 100)], [(40, 10)])
        self.assertEqual((left, bottom, right, top), (107, 95, 147, 105))

    def test_at_the_right_edge_it_stands_elsewhere(self):
        self.assert_free([(595, 100)], [(40, 10)])
        self.assert_free([(2, 2), (598, 398)], [(40, 10)] * 2)

    def test_many_points_in_one_place_have_free_labels(self):
        self.assert_free([(300 + n % 4, 200 + n // 4) for n in range(17)], [(45, 10)] * 17)

    def test_a_label_without_room_stands_beside_its_point(self):
        indices = picture.free_boxes([(5, 5)], [(700, 10)], BOUNDS)
        self.assertEqual(indices[0][0], 12)

    def test_what_is_missing_is_named(self):
        self.assertIn(picture.lacking(), ("", "pictures take matplotlib: apt-get install python3-matplotlib"))


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
class Drawings(unittest.TestCase):
    def drawn(self):
        """Steps and memory of RESULT, as tools/results draws them."""
        with tempfile.TemporaryDirectory() as folder:
            comments = gains.written(pathlib.Path(folder), RESULT)
            return [results.KINDS[kind](results.Selection(pathlib.Path(folder), what))
                    for comment in comments for _, kind, what in results.PICTURE.findall(comment)]

    def test_the_loss_is_drawn_from_the_lines_of_a_training(self):
        with tempfile.TemporaryDirectory() as folder:
            lines, drawing = pathlib.Path(folder, "steps.jsonl"), pathlib.Path(folder, "loss.svg")
            steps = [{"step": 1, "loss": 5.5}, {"somebody": "else's"}, {"step": 2, "loss": None},
                     {"step": 3, "loss": 2.25}]
            lines.write_text("".join(json.dumps(row) + "\n" for row in steps))
            self.assertEqual(loss_picture(lines, drawing), (0, ""))
            self.assertIn("Loss by step: 5.500 to 2.250", drawing.read_text())
            lines.write_text("{}\n")
            status, error = loss_picture(lines, drawing)
            self.assertEqual(status, 1)
            self.assertIn("no line has a step and a finite loss", error)

    def test_the_same_figures_give_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            texts = set()
            for drawn in (*self.drawn(), *self.drawn()):
                picture.save(drawn, pathlib.Path(folder, "one.svg"))
                texts.add(pathlib.Path(folder, "one.svg").read_text())
            self.assertEqual(len(texts), 2)
            for text in texts:
                self.assertIn("system11", text)
                self.assertNotIn("<dc:date>", text)

    def test_labels_of_systems_do_not_cover_each_other(self):
        from matplotlib.text import Text  # pylint: disable=import-outside-toplevel
        _, drawn = self.drawn()
        drawn.draw_without_rendering()  # annotations stand where they belong only then
        renderer = drawn.canvas.get_renderer()
        # Of the words alone, without the line that leads to them.
        boxes = [tuple(Text.get_window_extent(text, renderer).extents) for text in drawn.axes[0].texts]
        self.assertEqual(len(boxes), 12)
        for (left, bottom, right, top), other in itertools.combinations(boxes, 2):
            self.assertFalse(picture.overlap((left + 1, bottom + 1, right - 1, top - 1), other))


if __name__ == "__main__":
    unittest.main()
