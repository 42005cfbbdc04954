#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# conditions.sh [TEST…]: conditions.py, for `./dev vm SUITE tests/vm/conditions.sh`.
export STACKSNAP_PATIENCE=${STACKSNAP_PATIENCE:-10} STACKSNAP_BUILD=$PWD/build
uname -rv
exec python3 tests/vm/conditions.py "$@"
