# SPDX-License-Identifier: LGPL-2.1-or-later
"""STACKSNAP_PATIENCE: how long tests wait for what is late on a slow machine."""
import os
import subprocess
import sys
from unittest import mock

import harness


class Patience(harness.Case):
    def waited(self):
        """How often a condition that never holds is asked, by a clock that goes on by a second each time."""
        asked = []
        with mock.patch.object(harness.time, "monotonic", lambda: float(len(asked))), \
             mock.patch.object(harness.time, "sleep", lambda _: None):
            with self.assertRaises(harness.Timeout):
                harness.wait_until(lambda: asked.append(1), "nothing", 5)
        return len(asked)

    def test_conditions(self):
        with mock.patch.object(harness, "PATIENCE", 1):
            usual = self.waited()
        with mock.patch.object(harness, "PATIENCE", 10):
            self.assertEqual(self.waited(), 46 + usual - 1)

    def test_environment(self):
        line = "import harness; print(harness.PATIENCE, harness.DEADLINE)"
        for value, wanted in (("10", "10 600.0"), ("1", "1 60.0"), ("0", "1 60.0")):
            done = subprocess.run([sys.executable, "-c", line], cwd=os.path.dirname(os.path.abspath(harness.__file__)),
                                  env=dict(os.environ, STACKSNAP_PATIENCE=value), stdout=subprocess.PIPE, text=True,
                                  check=True)
            self.assertEqual(done.stdout.strip(), wanted)
