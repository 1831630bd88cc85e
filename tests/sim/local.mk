# What tests of sim/ link is in tests/local.mk.
public_tests += %D%/test-errnos-sim %D%/test-sim %D%/test-sim-aim \
	%D%/test-sim-crash \
	%D%/test-sim-cut %D%/test-sim-datagram %D%/test-sim-disk %D%/test-sim-end \
	%D%/test-sim-errors %D%/test-sim-file \
	%D%/test-sim-file-job %D%/test-sim-file-linux %D%/test-sim-host \
	%D%/test-sim-job \
	%D%/test-sim-many %D%/test-sim-memory %D%/test-sim-name %D%/test-sim-net \
	%D%/test-sim-order %D%/test-sim-own %D%/test-sim-pipeline \
	%D%/test-sim-poll-hook %D%/test-sim-pool \
	%D%/test-sim-shared %D%/test-sim-socket %D%/test-sim-wire
test_scripts += %D%/test-runner.sh %D%/test-weir-sim-mutation.sh %D%/test-weir-sim-verbs.sh \
	%D%/test-weir-sim-fabric.sh \
	%D%/test-weir-sim.sh

# Scenarios that fail, for test-runner.sh.
check_PROGRAMS += %D%/runner-scenarios
%C%_runner_scenarios_LDADD = $(weir_sim) libweir.la

# A scenario of weir-sim's, over the mock.
sim_verbs = %D%/sim-verbs.c %D%/sim-verbs-job.c %D%/sim-verbs-link.c \
	%D%/sim-verbs-message.c %D%/sim-verbs-mw.c %D%/sim-verbs-target.c \
	%D%/sim-verbs.h

without_threads += %D%/test-errnos-sim %D%/test-sim %D%/test-sim-aim \
	%D%/test-sim-crash \
	%D%/test-sim-cut %D%/test-sim-datagram %D%/test-sim-disk %D%/test-sim-end \
	%D%/test-sim-errors %D%/test-sim-file \
	%D%/test-sim-file-job %D%/test-sim-file-linux %D%/test-sim-host \
	%D%/test-sim-job \
	%D%/test-sim-many %D%/test-sim-memory %D%/test-sim-name %D%/test-sim-net \
	%D%/test-sim-order %D%/test-sim-own %D%/test-sim-pipeline \
	%D%/test-sim-poll-hook %D%/test-sim-pool \
	%D%/test-sim-shared %D%/test-sim-socket %D%/test-sim-wire
