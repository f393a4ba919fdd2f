"""What the packages horing and paro load, and what they raise: HORING_LIBRARY and PARO_LIBRARY name the built libraries."""

import os
import subprocess
import sys
import unittest

import horing
from paro import _library


class Library(unittest.TestCase):
    def test_each_status_has_an_exception_of_its_own(self):
        found = {horing.errors.error_for(status, "text").status for status in range(1, 13)}
        self.assertEqual(found, set(range(1, 13)))

    def test_bad_environments_are_errors_with_a_text(self):
        with self.assertRaisesRegex(horing.HoringError, "rank"):
            horing.Communicator(5, 2, rendezvous="127.0.0.1:1")

    def libparo(self, named, code="", expected=0):
        """What a process prints where PARO_LIBRARY is `named`."""
        code = "from horing import _library as libhoring; from paro import _library as libparo\n" + code
        code += "\nprint(libparo.library()._name, libparo.strategy_letters('zero2'))"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PARO_LIBRARY": str(named)},
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, expected, done.stderr)
        return done.stdout + done.stderr

    def test_libparo_is_the_file_that_its_variable_names(self):
        folder, name = os.path.split(_library.library_path())
        # No link in another folder: a wheel's libraries are found from the library's own.
        named = os.path.join(folder, os.pardir, os.path.basename(folder), name)
        self.assertEqual(self.libparo(named).split(), [named, "NGG"])
        self.assertIn(f"ImportError: PARO_LIBRARY={named} is PaRO ",
                      self.libparo(named, "libhoring.library(); libhoring.INTERFACE = '9.9'", expected=1))
        self.assertIn(f"ImportError: PARO_LIBRARY={folder} cannot be loaded: ", self.libparo(folder, expected=1))
        self.assertIn(f"ImportError: PARO_LIBRARY={named}x: there is no such file", self.libparo(f"{named}x", expected=1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
