# The installed commands.  They use public headers only.
bin_PROGRAMS += %D%/weir
%C%_weir_LDFLAGS = $(program_ldflags)
%C%_weir_SOURCES = \
	%D%/bench-case.c \
	%D%/bench-compare.c \
	%D%/bench-csv.c \
	%D%/bench-line.c \
	%D%/bench-machine.c \
	%D%/bench-peers.c \
	%D%/bench-picture.c \
	%D%/bench-report.c \
	%D%/bench-result.c \
	%D%/bench-run.c \
	%D%/bench-table.c \
	%D%/bench.c \
	%D%/bench.h \
	%D%/find.c \
	%D%/info-json.c \
	%D%/info-text.c \
	%D%/info-unused.c \
	%D%/info.c \
	%D%/info.h \
	%D%/json.c \
	%D%/json.h \
	%D%/route-place.c \
	%D%/route.c \
	%D%/route.h \
	%D%/system.c \
	%D%/tool.h \
	%D%/top-ask.c \
	%D%/top-json.c \
	%D%/top-prometheus.c \
	%D%/top-text.c \
	%D%/top.c \
	%D%/top.h \
	%D%/trace.c \
	%D%/weir.c
# Scripts for the probes of the libraries: docs/tracing.md.
bpftracedir = $(pkgdatadir)/bpftrace
dist_bpftrace_DATA = \
	%D%/bpftrace/buffers.bt \
	%D%/bpftrace/job-events.bt \
	%D%/bpftrace/late-turns.bt \
	%D%/bpftrace/microseconds.bt \
	%D%/bpftrace/slow-jobs.bt \
	%D%/bpftrace/wakeups.bt
# Of which commit figures are.
nodist_%C%_weir_SOURCES = %D%/commit.h
CLEANFILES += %D%/commit.h
%D%/commit.h: always
	$(AM_V_GEN)$(MKDIR_P) %D% && \
		$(SHELL) $(top_srcdir)/build-aux/commit.sh $(top_srcdir) $@
.PHONY: always
%D%/weir-bench-machine.$(OBJEXT): %D%/commit.h
%C%_weir_CPPFLAGS = $(AM_CPPFLAGS) -DWEIR_LIBEXECDIR='"$(pkglibexecdir)"'
%C%_weir_LDADD = $(common) $(weir_rdma) $(weir_fabric) $(weir_nvme) libweir-cuda.la libweir.la $(NCURSES_LIBS) -lm
if HAVE_VERBS
%C%_weir_SOURCES += %D%/find-rdma.c
endif
if HAVE_NCURSES
%C%_weir_SOURCES += %D%/top-screen.c
%C%_weir_CPPFLAGS += $(NCURSES_CFLAGS)
else
%C%_weir_SOURCES += %D%/top-screen-none.c
endif

bin_PROGRAMS += %D%/weir-sim
%C%_weir_sim_LDFLAGS = $(program_ldflags)
# What all scenarios need, and the scenarios.
weir_sim_common = \
	%D%/sim-fixture.c \
	%D%/sim-fixture.h \
	%D%/sim-scenarios.h \
	%D%/weir-sim.c
weir_sim_sources = $(weir_sim_common) \
	%D%/sim-chains.c \
	%D%/sim-chains.h \
	%D%/sim-copier.c \
	%D%/sim-cores.c \
	%D%/sim-cp.c \
	%D%/sim-cp.h \
	%D%/sim-export.c \
	%D%/sim-export.h \
	%D%/sim-lease.c \
	%D%/sim-moves.c \
	%D%/sim-net-end.c \
	%D%/sim-net.c \
	%D%/sim-net.h \
	%D%/sim-pipelines.c \
	%D%/sim-pipelines.h \
	%D%/sim-places.c \
	%D%/sim-pools.c \
	%D%/sim-reactor.c \
	%D%/sim-scenarios.c \
	%D%/sim-stream.c
%C%_weir_sim_SOURCES = $(weir_sim_sources)
%C%_weir_sim_LDADD = $(weir_sim) libweir.la

if !SANITIZE
check_PROGRAMS += %D%/weir-sim-mutation
%C%_weir_sim_mutation_SOURCES = $(weir_sim_sources)
%C%_weir_sim_mutation_LDADD = libweir-mutation.la
endif

# Over the mock of libfabric, which it loads.
if HAVE_LIBFABRIC
if SHARED
check_PROGRAMS += %D%/weir-sim-fabric
endif
endif
%C%_weir_sim_fabric_SOURCES = $(weir_sim_common) tests/sim/sim-fabric.c \
	$(libweir_fabric_la_SOURCES)
%C%_weir_sim_fabric_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
%C%_weir_sim_fabric_LDADD = libweir-all.la -ldl
EXTRA_%C%_weir_sim_fabric_DEPENDENCIES = $(fabric_mock)

# Over the mock for RDMA, which lives in tests/.
if HAVE_VERBS
check_PROGRAMS += %D%/weir-sim-verbs
%C%_weir_sim_verbs_SOURCES = $(weir_sim_common) $(sim_verbs)
if SANITIZE
%C%_weir_sim_verbs_LDADD = libweir-all.la
else
%C%_weir_sim_verbs_LDADD = libweir-mutation.la
endif
%C%_weir_sim_verbs_LDFLAGS = $(AM_LDFLAGS) $(test_mock)
EXTRA_%C%_weir_sim_verbs_DEPENDENCIES = tests/libmock.a
endif
