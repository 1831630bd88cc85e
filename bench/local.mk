# Benchmarks: built by `make check`, which only looks whether they run, and run
# in earnest by `make bench`.  BENCH_FLAGS goes to run.sh: names, --quick.
bench_common = %D%/bench.c %D%/bench.h %D%/report.c
bench_libs = libweir.la $(LIBURING_LIBS) $(LIBEV_LIBS) $(LIBUV_LIBS) -lm

bench_programs = \
	%D%/bench-bounce \
	%D%/bench-buf \
	%D%/bench-copy \
	%D%/bench-cp \
	%D%/bench-direct \
	%D%/bench-echo \
	%D%/bench-idle \
	%D%/bench-large \
	%D%/bench-nop \
	%D%/bench-pipe \
	%D%/bench-post \
	%D%/bench-read \
	%D%/bench-register \
	%D%/bench-sync \
	%D%/bench-timer

# What needs an RDMA device, as a guest's: tests/vm/run --rdma bench/bench-channel.
if HAVE_VERBS
bench_programs += %D%/bench-channel
endif

%C%_bench_bounce_SOURCES = %D%/bench-bounce.c $(bench_common)
%C%_bench_bounce_LDADD = $(bench_libs)
%C%_bench_buf_SOURCES = %D%/bench-buf.c %D%/mempool.c %D%/mempool.h \
	$(bench_common)
%C%_bench_buf_CFLAGS = $(AM_CFLAGS) $(DPDK_CFLAGS)
%C%_bench_buf_LDADD = $(bench_libs) $(DPDK_LIBS)
%C%_bench_channel_SOURCES = %D%/bench-channel.c $(bench_common)
%C%_bench_channel_LDADD = $(bench_libs) $(VERBS_LIBS)
%C%_bench_copy_SOURCES = %D%/bench-copy.c %D%/streamed.h $(bench_common)
%C%_bench_copy_CFLAGS = $(AM_CFLAGS) $(ISAL_CFLAGS)
%C%_bench_copy_LDADD = $(bench_libs) $(ISAL_LIBS)
%C%_bench_cp_SOURCES = %D%/bench-cp.c $(bench_common)
%C%_bench_cp_LDADD = $(bench_libs)
%C%_bench_direct_SOURCES = %D%/bench-direct.c tests/loopdev.h $(bench_common)
%C%_bench_direct_LDADD = $(bench_libs)
%C%_bench_echo_SOURCES = %D%/bench-echo.c %D%/echo-server.c %D%/echo.h \
	$(bench_common)
%C%_bench_echo_LDADD = $(bench_libs)
%C%_bench_idle_SOURCES = %D%/bench-idle.c $(bench_common)
%C%_bench_idle_LDADD = $(bench_libs)
%C%_bench_large_SOURCES = %D%/bench-large.c %D%/streamed.h $(bench_common)
%C%_bench_large_LDADD = $(bench_libs)
%C%_bench_nop_SOURCES = %D%/bench-nop.c $(bench_common)
%C%_bench_nop_LDADD = $(bench_libs)
%C%_bench_pipe_SOURCES = %D%/bench-pipe.c $(bench_common)
%C%_bench_pipe_LDADD = $(bench_libs)
%C%_bench_post_SOURCES = %D%/bench-post.c $(bench_common)
%C%_bench_post_LDADD = $(bench_libs)
%C%_bench_read_SOURCES = %D%/bench-read.c $(bench_common)
%C%_bench_read_LDADD = $(bench_libs)
%C%_bench_register_SOURCES = %D%/bench-register.c $(bench_common)
%C%_bench_register_LDADD = $(bench_libs)
%C%_bench_sync_SOURCES = %D%/bench-sync.c $(bench_common)
%C%_bench_sync_LDADD = $(bench_libs)
%C%_bench_timer_SOURCES = %D%/bench-timer.c $(bench_common)
%C%_bench_timer_LDADD = $(bench_libs)

check_PROGRAMS += $(bench_programs)
TESTS += %D%/smoke.sh
EXTRA_DIST += %D%/README.md %D%/run.sh %D%/smoke.sh

# WEIR_CP is the program that bench-cp copies with.
bench: all $(bench_programs)
	$(SHELL) $(srcdir)/%D%/run.sh $(BENCH_FLAGS)

.PHONY: bench
