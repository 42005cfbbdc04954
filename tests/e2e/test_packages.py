# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is handed out: that all places name the same version, that each file that is installed is in one
package of Debian's, and that the library has kept what programs were linked with. Packages themselves are
made and used by `./dev package`."""
import fnmatch
import json
import os
import re
import subprocess

from harness import BUILD, Case, SOURCE, need, read_file, run_tool

LIBRARY = os.path.join(BUILD, "lib", "libstacksnap.so.0")


def source(*path):
    return read_file(os.path.join(SOURCE, *path))


def number(version):
    return tuple(map(int, version.split(".")))


def promised():
    """Name of each symbol of the library -> the version that it is there since."""
    lines = source("debian", "libstacksnap0.symbols").splitlines()
    return dict(re.match(r" (\w+)@STACKSNAP_0 ([\d.]+)$", line).groups() for line in lines if line.startswith(" "))


def exported(library):
    listed = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True)
    return {name.split("@")[0] for name in re.findall(r"\S+$", listed.stdout, re.M)}


class Packages(Case):
    def test_one_version(self):
        version = re.search(r"^project\(.*?version: '([\d.]+)'", source("meson.build"), re.S | re.M).group(1)
        self.assertEqual(run_tool(["--version"]).text.split()[1], version)
        for path, pattern in (("CHANGELOG.md", r"^## ([\d.]+)"), ("debian/changelog", r"^stacksnap \(([\d.]+)\)"),
                              ("packaging/stacksnap.spec", r"^Version:\s*([\d.]+)"),
                              ("packaging/stacksnap.spec", r"^\* .* - ([\d.]+)-\d+$")):
            with self.subTest(path=path):
                self.assertEqual(re.search(pattern, source(path), re.M).group(1), version)

    def test_every_installed_file_is_packaged(self):
        need("meson")
        listed = subprocess.run(["meson", "introspect", "--installed", BUILD], stdout=subprocess.PIPE, text=True,
                                check=True)
        patterns = [line for package in ("stacksnap", "libstacksnap0", "libstacksnap-dev")
                    for line in source("debian", package + ".install").split()]
        options = json.loads(subprocess.run(["meson", "introspect", "--buildoptions", BUILD], stdout=subprocess.PIPE,
                                            check=True).stdout)
        prefix, libraries = (next(option["value"] for option in options if option["name"] == name)
                             for name in ("prefix", "libdir"))
        for path in json.loads(listed.stdout).values():
            path = os.path.relpath(path, prefix)
            # Where dpkg-dev is not installed meson knows nothing of the folder that debhelper tells it.
            if path.startswith(libraries + "/"):
                path = "lib/TRIPLET" + path[len(libraries):]
            path = "usr/" + path
            held = [p for p in patterns if fnmatch.fnmatch(path, p) or fnmatch.fnmatch(path, p + "/*")]
            self.assertEqual(len(held), 1, path)

    def test_symbols(self):
        """One that is gone breaks programs; a new one is listed with the version that will have it."""
        need("nm")
        version = source("meson.build").split("version: '")[1].split("'")[0]
        listed = promised()
        self.assertEqual(sorted(exported(LIBRARY)), sorted(listed))
        self.assertEqual([n for n, since in listed.items() if number(since) > number(version)], [])
        header = set(re.findall(r"\b(stacksnap_\w+)\(", source("lib", "stacksnap.h")))
        self.assertEqual(header - set(listed), set())
