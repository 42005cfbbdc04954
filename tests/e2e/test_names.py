# SPDX-License-Identifier: LGPL-2.1-or-later
"""A stack of stacksnap itself is readable: a function's name says what it acts on."""
import glob
import os
import re

from harness import Case, SOURCE

FUNCTION = re.compile(r"^(?=[a-z_])[^\n;{}#=]*?\b(\w+)\([^;{}]*?\)\s*\n?\{", re.M)
WORDS_OF_C = ("if", "for", "while", "switch")
MOST_SHARED = 0.10  # of all functions


def places_of_functions():
    """Files of the library by the name of a function that they define."""
    found = {}
    for path in glob.glob(os.path.join(SOURCE, "lib", "**", "*.[ch]"), recursive=True):
        with open(path, encoding="utf-8") as file:
            for name in FUNCTION.findall(file.read()):
                if name not in WORDS_OF_C:
                    found.setdefault(name, set()).add(os.path.relpath(path, SOURCE))
    return found


class Names(Case):
    def test_no_two_files_of_a_folder_share_a_function(self):
        twice = []
        for name, paths in sorted(places_of_functions().items()):
            folders = [os.path.dirname(path) for path in paths]
            twice += [f"{name} in {folder}" for folder in sorted(set(folders)) if folders.count(folder) > 1]
        self.assertEqual(twice, [])

    def test_few_functions_share_a_name(self):
        sizes = [len(paths) for paths in places_of_functions().values()]
        self.assertGreater(sum(sizes), 5000)
        shared = sum(size for size in sizes if size > 1)
        self.assertLessEqual(shared / sum(sizes), MOST_SHARED, f"{shared} of {sum(sizes)}")
