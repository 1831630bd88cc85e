# Benchmarks, built and run by `make bench` only.
bench_programs =

EXTRA_PROGRAMS += $(bench_programs)
CLEANFILES += $(bench_programs)

bench: all $(bench_programs)
	srcdir='$(srcdir)' $(SHELL) $(srcdir)/%D%/run.sh $(bench_programs)

.PHONY: bench
