#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""matrix_go.py READER COUNT FOLDER VERSION=GO…: every variant of the zoo with every go command: one line each,
and the differences. FOLDER keeps the programs."""
import os
import sys
import time

import zoo_go


def main():
    reader, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    chosen = os.environ.get("VARIANTS", " ".join(zoo_go.VARIANTS)).split()
    options = os.environ.get("READER_OPTIONS", "").split()
    bad = 0
    for version, go in (word.split("=", 1) for word in sys.argv[4:]):
        for variant in chosen:
            program = os.path.join(folder, f"zoo-{version}-{variant}")
            if not os.path.exists(program):
                trouble = zoo_go.build(go, variant, program)
                if trouble:
                    print(f"{version} {variant}: skipped: {trouble.strip().splitlines()[-1]}", flush=True)
                    continue
            begin = time.monotonic()
            try:
                reading, comparison = zoo_go.compare(reader, program, count, int(version.split(".")[1]) >= 21, options)
            except (RuntimeError, OSError, ValueError) as error:
                print(f"{version} {variant}: FAILED: {error}", flush=True)
                bad += 1
                continue
            refused = reading.result["refused"] if reading.result else "not found"
            timing = reading.document
            print(f"{version} {variant}: {'REFUSED ' + refused + ' ' if refused else ''}{comparison.summary()}; "
                  f"scout {timing['scout_ns'] / 1e6:.1f} ms, read {timing['read_ns'] / 1e6:.1f} ms, "
                  f"{time.monotonic() - begin:.1f} s", flush=True)
            bad += bool(refused) or bool(comparison.differences)
            for difference in comparison.differences[:int(os.environ.get("SHOW", "3"))]:
                print("    " + difference[:700], flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
