#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Memory of peers over libfabric in simulated worlds, over a mock: the tests of
# test-weir-sim-verbs.sh.
# shellcheck disable=SC2034 # The other script uses it.
scenario=fabric
WEIR_FABRIC_LIBRARY=$PWD/tests/.libs/mock-fabric.so
export WEIR_FABRIC_LIBRARY
# shellcheck source=tests/sim/test-weir-sim-verbs.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/sim/test-weir-sim-verbs.sh"
