# Benchmarks: `make check` only looks whether they run, `make bench` and the
# installed `weir bench` run them in earnest.
bench_common = %D%/bench.c %D%/bench.h %D%/read-jobs.h %D%/choice.c %D%/example.c \
	%D%/hist.c %D%/hist.h \
	%D%/peers.c %D%/report-json.c %D%/report.c
bench_dpdk = %D%/dpdk.c %D%/dpdk.h %D%/dpdk-quiet.h
bench_libs = $(LIBEXEC_RUNPATH) libweir.la $(LIBURING_LIBS) $(LIBEV_LIBS) $(LIBUV_LIBS) -lm

bench_programs = \
	%D%/bench-accel \
	%D%/bench-bounce \
	%D%/bench-buf \
	%D%/bench-call \
	%D%/bench-copy \
	%D%/bench-cp \
	%D%/bench-cuda \
	%D%/bench-direct \
	%D%/bench-echo \
	%D%/bench-hook \
	%D%/bench-http \
	%D%/bench-idle \
	%D%/bench-large \
	%D%/bench-late \
	%D%/bench-nbd \
	%D%/bench-nop \
	%D%/bench-pipe \
	%D%/bench-post \
	%D%/bench-proxy \
	%D%/bench-read \
	%D%/bench-recv \
	%D%/bench-register \
	%D%/bench-shared \
	%D%/bench-start \
	%D%/bench-sync \
	%D%/bench-timer \
	%D%/bench-ublk \
	%D%/bench-udp \
	%D%/bench-vhost

# What needs an RDMA device, as a guest's: tests/vm/run --rdma bench/bench-channel.
if HAVE_VERBS
bench_programs += %D%/bench-channel %D%/bench-rdma
endif

if HAVE_LIBFABRIC
bench_programs += %D%/bench-fabric
endif
%C%_bench_fabric_SOURCES = %D%/bench-fabric.c %D%/bare-fabric.c %D%/bare-fabric.h \
	$(bench_common)
%C%_bench_fabric_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
%C%_bench_fabric_LDADD = $(weir_fabric) $(bench_libs) $(LIBFABRIC_LIBS)

# What needs a drive, as a guest's: tests/vm/run --nvme bench/bench-nvme.
if HAVE_NVME
bench_programs += %D%/bench-nvme
endif
%C%_bench_nvme_SOURCES = %D%/bench-nvme.c $(bench_common)
%C%_bench_nvme_LDADD = $(weir_nvme) $(bench_libs)

%C%_bench_accel_SOURCES = %D%/bench-accel.c $(bench_common)
%C%_bench_accel_CFLAGS = $(AM_CFLAGS) $(ISAL_CFLAGS) $(OPENSSL_CFLAGS) \
	$(ZLIB_CFLAGS) $(ZSTD_CFLAGS)
%C%_bench_accel_LDADD = libweir-accel.la $(bench_libs) $(accel_libs)
%C%_bench_bounce_SOURCES = %D%/bench-bounce.c %D%/user-domain.c \
	%D%/user-domain.h $(bench_common)
%C%_bench_bounce_LDADD = $(bench_libs)
%C%_bench_buf_SOURCES = %D%/bench-buf.c %D%/mempool.c $(bench_dpdk) \
	$(bench_common)
%C%_bench_buf_CFLAGS = $(AM_CFLAGS) $(DPDK_CFLAGS)
%C%_bench_buf_LDADD = $(bench_libs) $(DPDK_LIBS)
%C%_bench_call_SOURCES = %D%/bench-call.c %D%/bare-ring.c %D%/bare-ring.h \
	%D%/post-peers.c %D%/post-peers.h \
	$(bench_common)
%C%_bench_call_LDADD = $(bench_libs)
%C%_bench_channel_SOURCES = %D%/bench-channel.c $(bench_common)
%C%_bench_channel_LDADD = $(weir_rdma) $(bench_libs) $(VERBS_LIBS)
%C%_bench_copy_SOURCES = %D%/bench-copy.c %D%/dmadev.c %D%/streamed.h \
	$(bench_dpdk) $(bench_common)
%C%_bench_copy_CFLAGS = $(AM_CFLAGS) $(ISAL_CFLAGS) $(DPDK_CFLAGS)
%C%_bench_copy_LDADD = $(bench_libs) $(ISAL_LIBS) $(DPDK_LIBS)
%C%_bench_cp_SOURCES = %D%/bench-cp.c $(bench_common)
%C%_bench_cp_LDADD = $(bench_libs)
# The driver is opened, not linked.
%C%_bench_cuda_SOURCES = %D%/bench-cuda.c cuda/driver.c cuda/driver.h \
	$(bench_common)
%C%_bench_cuda_CFLAGS = $(AM_CFLAGS)
%C%_bench_cuda_LDADD = libweir-cuda.la $(bench_libs) -ldl
%C%_bench_direct_SOURCES = %D%/bench-direct.c %D%/tasks.c \
	%D%/tasks.h tests/support/loopdev.h $(bench_common)
%C%_bench_direct_LDADD = $(bench_libs)
%C%_bench_echo_SOURCES = %D%/bench-echo.c %D%/echo-liburing.c \
	%D%/echo-server.c %D%/echo.h %D%/tasks.c %D%/tasks.h $(bench_common)
if HAVE_LIBEVENT
pkglibexec_PROGRAMS += %D%/echo-libevent
%C%_echo_libevent_SOURCES = %D%/echo-libevent.c %D%/echo.h
%C%_echo_libevent_CFLAGS = $(AM_CFLAGS) $(LIBEVENT_CFLAGS)
%C%_echo_libevent_LDADD = $(LIBEVENT_LIBS)
# Who builds the benchmark alone wants this peer, too.
EXTRA_%C%_bench_echo_DEPENDENCIES = %D%/echo-libevent$(EXEEXT)
endif
%C%_bench_echo_LDADD = $(bench_libs)
%C%_bench_hook_SOURCES = %D%/bench-hook.c examples/ucx-peer.h $(bench_common)
%C%_bench_hook_CFLAGS = $(AM_CFLAGS) $(UCX_CFLAGS)
%C%_bench_hook_LDADD = $(bench_libs) $(UCX_LIBS)
pkglibexec_PROGRAMS += %D%/http-files
%C%_http_files_SOURCES = examples/43-http-files.c examples/http.h
%C%_http_files_LDADD = $(LIBEXEC_RUNPATH) libweir.la
%C%_bench_http_SOURCES = %D%/bench-http.c $(bench_common)
%C%_bench_http_LDADD = $(bench_libs)
# Who builds the benchmark alone wants the server, too.
EXTRA_%C%_bench_http_DEPENDENCIES = %D%/http-files$(EXEEXT)
%C%_bench_idle_SOURCES = %D%/bench-idle.c $(bench_common)
%C%_bench_idle_LDADD = $(bench_libs)
%C%_bench_large_SOURCES = %D%/bench-large.c %D%/streamed.h $(bench_common)
%C%_bench_large_LDADD = $(bench_libs)
%C%_bench_late_SOURCES = %D%/bench-late.c %D%/late-child.c \
	%D%/late-child.h %D%/late-export.c %D%/late-own.c %D%/late-peers.c \
	%D%/late-uv.c %D%/late-uv.h %D%/late.h $(bench_common)
%C%_bench_late_LDADD = $(bench_libs)
# Who builds the benchmark alone wants these peers, too.
EXTRA_%C%_bench_late_DEPENDENCIES =
if HAVE_LIBFABRIC
pkglibexec_PROGRAMS += %D%/late-fabric
%C%_late_fabric_SOURCES = %D%/late-fabric.c %D%/late-child.c %D%/late-child.h \
	%D%/late-two.c %D%/late-two.h
%C%_late_fabric_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
%C%_late_fabric_LDADD = $(LIBFABRIC_LIBS)
EXTRA_%C%_bench_late_DEPENDENCIES += %D%/late-fabric$(EXEEXT)
endif
if HAVE_UCX
pkglibexec_PROGRAMS += %D%/late-ucx
%C%_late_ucx_SOURCES = %D%/late-ucx.c %D%/late-child.c %D%/late-child.h \
	%D%/late-two.c %D%/late-two.h
%C%_late_ucx_CFLAGS = $(AM_CFLAGS) $(UCX_CFLAGS)
%C%_late_ucx_LDADD = $(UCX_LIBS)
EXTRA_%C%_bench_late_DEPENDENCIES += %D%/late-ucx$(EXEEXT)
endif
%C%_bench_nbd_SOURCES = %D%/bench-nbd.c %D%/bare-nbd.c %D%/bare-nbd.h \
	%D%/nbd-client.c %D%/nbd-client.h %D%/nbd-proto.h \
	$(bench_common)
%C%_bench_nbd_LDADD = $(bench_libs)
%C%_bench_ublk_SOURCES = %D%/bench-ublk.c $(bench_common)
%C%_bench_ublk_LDADD = $(bench_libs)
%C%_bench_vhost_SOURCES = %D%/bench-vhost.c $(bench_common)
%C%_bench_vhost_LDADD = $(bench_libs)
%C%_bench_nop_SOURCES = %D%/bench-nop.c $(bench_common)
%C%_bench_nop_LDADD = $(bench_libs)
%C%_bench_pipe_SOURCES = %D%/bench-pipe.c $(bench_common)
%C%_bench_pipe_LDADD = $(bench_libs)
%C%_bench_post_SOURCES = %D%/bench-post.c %D%/post-peers.c %D%/post-peers.h \
	%D%/ring.c $(bench_dpdk) $(bench_common)
%C%_bench_post_CFLAGS = $(AM_CFLAGS) $(DPDK_CFLAGS)
%C%_bench_post_LDADD = $(bench_libs) $(DPDK_LIBS)
%C%_bench_proxy_SOURCES = %D%/bench-proxy.c $(bench_common)
%C%_bench_proxy_LDADD = $(bench_libs)
dist_pkglibexec_SCRIPTS = %D%/proxy-peers.py
%C%_bench_rdma_SOURCES = %D%/bench-rdma.c %D%/perftest.c %D%/perftest.h \
	%D%/rdma-end.c %D%/rdma-end.h %D%/rdma-ping.c $(bench_common)
%C%_bench_rdma_LDADD = $(weir_rdma) $(bench_libs)
%C%_bench_read_SOURCES = %D%/bench-read.c $(bench_common)
%C%_bench_read_LDADD = $(bench_libs)
%C%_bench_register_SOURCES = %D%/bench-register.c $(bench_common)
%C%_bench_register_LDADD = $(bench_libs)
%C%_bench_shared_SOURCES = %D%/bench-shared.c %D%/bare-ring.c \
	%D%/bare-ring.h %D%/shared-peers.c %D%/shared-peers.h $(bench_common)
%C%_bench_shared_LDADD = $(bench_libs)
%C%_bench_start_SOURCES = %D%/bench-start.c $(bench_common)
%C%_bench_start_LDADD = $(bench_libs)
# Who builds the benchmark alone wants these, too.
EXTRA_%C%_bench_start_DEPENDENCIES = $(start_programs)
start_programs = %D%/start-bare$(EXEEXT) %D%/start-weir$(EXEEXT)
pkglibexec_PROGRAMS += %D%/start-bare %D%/start-weir
%C%_start_bare_SOURCES = %D%/start.c
%C%_start_bare_LDADD =
%C%_start_weir_SOURCES = %D%/start.c
%C%_start_weir_CPPFLAGS = $(AM_CPPFLAGS) -DSTART_WEIR
%C%_start_weir_LDADD = $(LIBEXEC_RUNPATH) libweir.la
if HAVE_LIBEV
pkglibexec_PROGRAMS += %D%/start-libev
start_programs += %D%/start-libev$(EXEEXT)
%C%_start_libev_SOURCES = %D%/start.c
%C%_start_libev_CPPFLAGS = $(AM_CPPFLAGS) -DSTART_LIBEV
%C%_start_libev_LDADD = $(LIBEV_LIBS)
endif
if HAVE_LIBUV
pkglibexec_PROGRAMS += %D%/start-libuv
start_programs += %D%/start-libuv$(EXEEXT)
%C%_start_libuv_SOURCES = %D%/start.c
%C%_start_libuv_CPPFLAGS = $(AM_CPPFLAGS) -DSTART_LIBUV
%C%_start_libuv_LDADD = $(LIBUV_LIBS)
endif
%C%_bench_recv_SOURCES = %D%/bench-recv.c $(bench_common)
%C%_bench_recv_LDADD = $(bench_libs)
%C%_bench_sync_SOURCES = %D%/bench-sync.c $(bench_common)
%C%_bench_sync_LDADD = $(bench_libs)
%C%_bench_timer_SOURCES = %D%/bench-timer.c $(bench_common)
%C%_bench_timer_LDADD = $(bench_libs)
%C%_bench_udp_SOURCES = %D%/bench-udp.c $(bench_common)
%C%_bench_udp_LDADD = $(bench_libs)

# They are what `weir bench` runs, also where weir is installed.
pkglibexec_PROGRAMS += $(bench_programs)
bench_scripts += %D%/late.sh %D%/smoke.sh
EXTRA_DIST += %D%/README.md

# All figures, and a page of them; BENCH_FLAGS are more options of weir bench,
# as names, --quick, and --resume after a run that was cut off.  What hangs is
# ended, and its files go with bench.d.
BENCH_LIMIT = 15
bench: all
	$(MKDIR_P) bench.d
	WEIR_BENCH_DIR=%D% \
	WEIR_PROXY_PEERS='$(srcdir)/%D%/proxy-peers.py' tools/weir bench --output bench.json \
		--limit $(BENCH_LIMIT) --dir bench.d \
		--reasons $(srcdir)/%D%/README.md --report performance.md \
		$(BENCH_FLAGS); status=$$?; rm -rf bench.d; exit $$status

# That run becomes the one that the source keeps, without histograms, and its page
# and pictures are made from that.
# Where the nanoseconds go: of a build without annotations for valgrind.
profile: %D%/count$(EXEEXT) %D%/bench-nop$(EXEEXT)
	python3 $(srcdir)/%D%/profile.py . $(srcdir)/docs/internals/profile.md \
		$(srcdir)/docs/internals/profile.svg
.PHONY: profile
EXTRA_DIST += %D%/profile.py

bench-keep:
	@test -s bench.json || { \
		echo 'There is no bench.json: "make bench" makes it.' >&2; \
		exit 1; }
	sed '/"ending"/d; s/,"values":\[[^]]*\],"counts":\[[^]]*\]//' bench.json \
		>$(srcdir)/docs/performance.json
	$(MAKE) bench-docs

# The page and the pictures of the source, from the run that it keeps.
bench-docs: tools/weir
	rm -rf $(srcdir)/docs/performance
	tools/weir bench --quiet --from $(srcdir)/docs/performance.json \
		--reasons ../bench/README.md \
		--report $(srcdir)/docs/performance.md

# Late writes: once with all sizes and peers, then parts of 100,000 endings of weir's
# own until there are a million.  Both go on where they were stopped.
# late-endings adds to what the source keeps, if there is no late.json.
LATE_ENDINGS = 1000000
LATE_FLAGS = --size 64K,1M,16M,256M --reps 1 --endings 200 --noise 99
late: all
	WEIR_BENCH_DIR=%D% tools/weir bench late --quiet --resume \
		--output late.json $(LATE_FLAGS)
	@$(MAKE) late-endings

late-endings: all
	test -s late.json || cp $(srcdir)/docs/late-writes.json late.json
	while test `sed -n 's/.*"who":"weir".*"tried":\([0-9]*\).*/\1/p' \
			late.json | awk '{ n += $$1 } END { print n + 0 }'` \
			-lt $(LATE_ENDINGS); do \
		WEIR_TEST_LONG=1 WEIR_LATE_KEEP=late.json \
			$(SHELL) $(srcdir)/%D%/late.sh >late.log || exit; \
		! grep '^not ok' late.log || exit; \
	done

# Likewise 10,000 endings by RDMA, in a guest, of which the first line is, too.
late-rdma: all tests/rdma/test-late-rdma
	test -s late.json || cp $(srcdir)/docs/late-writes.json late.json
	$(SHELL) $(srcdir)/tests/vm/run --rdma2 --timeout 7200 \
		--env WEIR_TEST_LONG=1 --env WEIR_LATE_KEEP=late.json \
		--env WEIR_BENCH_DIR=%D% sh -c 'tools/weir bench late \
			--quiet --quick --only none --output late.guest; \
		grep machine late.guest >>late.json && \
		exec tests/rdma/test-late-rdma'

# The page of that becomes the one that the source has, and what it is made of.
late-docs:
	@test -s late.json || { \
		echo 'There is no late.json: "make late" makes it.' >&2; \
		exit 1; }
	LC_ALL=C $(AWK) -v sum=1 -f $(srcdir)/build-aux/late-writes.awk \
		late.json >$(srcdir)/docs/late-writes.json
	LC_ALL=C $(AWK) -f $(srcdir)/build-aux/late-writes.awk \
		$(srcdir)/docs/late-writes.json >$(srcdir)/docs/late-writes.md

# Over RDMA, in a guest, whose processors are always somebody else's: --noise.
BENCH_RDMA_SECONDS = 1800
bench-rdma: all $(bench_programs)
	$(MKDIR_P) docs
	{ echo 'command   make bench-rdma'; \
	  echo "commit    $$(git -C $(srcdir) describe --always --dirty || \
		echo 'a tarball')"; \
	  date -u '+date      %Y-%m-%d %H:%M UTC%n'; } >docs/bench-rdma.txt
	$(SHELL) $(srcdir)/tests/vm/run --rdma \
		--timeout $(BENCH_RDMA_SECONDS) $(SHELL) -c 'uname -sr && \
		for b in rdma channel; do \
			%D%/bench-$$b --noise 99 $(BENCH_FLAGS) || exit; \
		done' >>docs/bench-rdma.txt
	@cat docs/bench-rdma.txt

.PHONY: bench bench-docs bench-keep bench-rdma late late-docs late-endings \
	late-rdma

# Instructions on the hot paths.  To keep new ones: make counts.
check_PROGRAMS += %D%/count
%C%_count_SOURCES = %D%/count.c %D%/count-cores.c %D%/count-jobs.c \
	%D%/count.h %D%/user-domain.c %D%/user-domain.h $(bench_common)
%C%_count_LDADD = libweir-all.la $(LIBURING_LIBS) $(LIBEV_LIBS) $(LIBUV_LIBS) \
	-lm
TESTS += %D%/count.sh
EXTRA_DIST += %D%/count.sh %D%/counts.txt

counts: %D%/count
	srcdir='$(srcdir)' $(SHELL) $(srcdir)/%D%/count.sh --keep

.PHONY: counts
