# The output is TAP.  tap-run.sh stands between a test and automake's driver: it
# limits its time and mends what cmocka 1.1.5 gets wrong.
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) \
	$(top_srcdir)/build-aux/tap-driver.sh
LOG_COMPILER = $(SHELL) $(top_srcdir)/build-aux/tap-run.sh
AM_LOG_FLAGS = $(TEST_WRAPPER)
TEST_EXTENSIONS = .sh
SH_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_COMPILER = $(SHELL) $(top_srcdir)/build-aux/tap-run.sh $(SHELL)

# WEIR_TEST_LONG=1 in the environment asks the tests for their full length.
AM_TESTS_ENVIRONMENT = \
	AWK='$(AWK)'; CC='$(CC)'; MAKE='$(MAKE)'; \
	SAN_CFLAGS='$(SAN_CFLAGS)'; PKG_CONFIG='$(PKG_CONFIG)'; \
	pkgconfigdir='$(pkgconfigdir)'; srcdir='$(srcdir)'; \
	CMOCKA_MESSAGE_OUTPUT=TAP; MALLOC_PERTURB_=165; \
	UBSAN_OPTIONS=print_stacktrace=1; \
	TSAN_OPTIONS="halt_on_error=1 $$TSAN_OPTIONS"; \
	export AWK CC MAKE SAN_CFLAGS PKG_CONFIG pkgconfigdir srcdir \
		CMOCKA_MESSAGE_OUTPUT MALLOC_PERTURB_ UBSAN_OPTIONS \
		TSAN_OPTIONS;

# What all tests share: the harness, and the fixtures, which are headers.
if HAVE_CMOCKA
check_LTLIBRARIES += %D%/libharness.la
endif
%C%_libharness_la_SOURCES = %D%/harness.c %D%/harness-fd.c %D%/harness-sim.c \
	%D%/alloc-fixture.h %D%/bounce-fixture.h %D%/channel-fixture.h \
	%D%/child-fixture.h %D%/conform-fixture.h %D%/conn-fixture.h \
	%D%/cores.h %D%/cycles-far.h %D%/cycles-near.h %D%/errnos-fixture.h \
	%D%/export-fixture.h %D%/forbid.h %D%/gate-fixture.h \
	%D%/group-fixture.h %D%/harness.h %D%/job-fixture.h \
	%D%/jobs-beside-fixture.h %D%/loopdev.h %D%/message-fixture.h \
	%D%/mock-cm-internal.h %D%/mock-verbs-internal.h %D%/mock-verbs.h \
	%D%/mw-fixture.h %D%/nbd-fixture.h %D%/nbd-plugin.h %D%/op-kinds.h \
	%D%/own-malloc.h %D%/peer-fixture.h %D%/pipeline-fixture.h \
	%D%/prometheus-fixture.h %D%/proxy-fixture.h %D%/rdma-fixture.h \
	%D%/segment-fixture.h %D%/sim-calls.h %D%/sim-file-fixture.h \
	%D%/sim-fixture.h %D%/sim-verbs.h %D%/slow-fixture.h %D%/snippets.h \
	%D%/stats-fixture.h %D%/table-fixture.h %D%/user-domain-fixture.h \
	%D%/verbs-fixture.h %D%/verbs-rules-cm.h %D%/verbs-rules.h \
	%D%/fuzz/descriptor-fixture.h

# A test links all objects of the library and can look inside, unless it says
# that it links what users link.  Its source is its name with ".c", unless it says
# otherwise.
LDADD = %D%/libharness.la libweir-all.la $(CMOCKA_LIBS)
test_public = %D%/libharness.la $(weir_sim) $(weir_rdma) libweir.la \
	$(CMOCKA_LIBS)

test_programs =
if HAVE_CMOCKA
test_programs += \
	%D%/test-accel \
	%D%/test-atomic \
	%D%/test-notify \
	%D%/test-bench-tasks \
	%D%/test-bounce \
	%D%/test-bounce-end \
	%D%/test-bounce-extra \
	%D%/test-bounce-nest \
	%D%/test-buf \
	%D%/test-buf-table \
	%D%/test-call \
	%D%/test-call-spsc \
	%D%/test-chain \
	%D%/test-chain-fuse \
	%D%/test-chain-hop \
	%D%/test-chain-storm \
	%D%/test-conform \
	%D%/test-cpu \
	%D%/test-dm-soft \
	%D%/test-descriptor \
	%D%/test-device \
	%D%/test-device-caps \
	%D%/test-direct \
	%D%/test-doca \
	%D%/test-dmadev \
	%D%/test-domain \
	%D%/test-engine \
	%D%/test-errnos \
	%D%/test-errnos-dma \
	%D%/test-errnos-host \
	%D%/test-errnos-mem \
	%D%/test-errnos-sim \
	%D%/test-export \
	%D%/test-export-copy \
	%D%/test-export-hostile \
	%D%/test-exporter \
	%D%/test-domain-job \
	%D%/test-domain-remote \
	%D%/test-domain-user \
	%D%/test-inventory \
	%D%/test-job \
	%D%/test-job-leave \
	%D%/test-why-calls \
	%D%/test-deferred \
	%D%/test-group \
	%D%/test-group-cpu \
	%D%/test-group-fail \
	%D%/test-group-load \
	%D%/test-handover \
	%D%/test-idle \
	%D%/test-spsc \
	%D%/test-mailbox \
	%D%/test-mmap \
	%D%/test-mmap-job \
	%D%/test-mmap-range \
	%D%/test-mmap-register \
	%D%/test-mmap-stop \
	%D%/test-number \
	%D%/test-why \
	%D%/test-job-fence \
	%D%/test-pipeline \
	%D%/test-pipeline-control \
	%D%/test-pool \
	%D%/test-process \
	%D%/test-route \
	%D%/test-translate \
	%D%/test-segment \
	%D%/test-segment-attach \
	%D%/test-segment-flags \
	%D%/test-segment-validator \
	%D%/test-segment-event \
	%D%/test-segment-external \
	%D%/test-segment-model \
	%D%/test-segment-phys \
	%D%/test-crc32c \
	%D%/test-fault \
	%D%/test-own \
	%D%/test-seccomp \
	%D%/test-host \
	%D%/test-drain \
	%D%/test-socket \
	%D%/test-splice \
	%D%/test-file \
	%D%/test-watch \
	%D%/test-weir-nbd \
	%D%/test-weir-nbd-disk \
	%D%/test-weir-nbd-hello \
	%D%/test-weir-nbd-hostile \
	%D%/test-weir-nbd-plugin \
	%D%/test-weir-nbd-status \
	%D%/test-weir-proxy \
	%D%/test-weir-proxy-address \
	%D%/test-weir-proxy-control \
	%D%/test-weir-proxy-hostile \
	%D%/test-post \
	%D%/test-timer \
	%D%/test-reactor \
	%D%/test-reentry \
	%D%/test-op \
	%D%/test-cancel \
	%D%/test-sigpipe \
	%D%/test-shared-pool \
	%D%/test-chain-full \
	%D%/test-sim \
	%D%/test-sim-crash \
	%D%/test-sim-cut \
	%D%/test-sim-disk \
	%D%/test-sim-end \
	%D%/test-sim-file \
	%D%/test-sim-file-job \
	%D%/test-sim-job \
	%D%/test-sim-file-linux \
	%D%/test-sim-memory \
	%D%/test-sim-name \
	%D%/test-sim-net \
	%D%/test-sim-order \
	%D%/test-sim-pipeline \
	%D%/test-sim-pool \
	%D%/test-sim-socket \
	%D%/test-sim-wire \
	%D%/test-sim-shared \
	%D%/test-shared-pool-end \
	%D%/test-spin \
	%D%/test-stats \
	%D%/test-stats-hostile \
	%D%/test-stats-open \
	%D%/test-stats-process \
	%D%/test-stats-sections \
	%D%/test-weir-top \
	%D%/test-starved \
	%D%/test-steady \
	%D%/test-storm \
	%D%/test-sync \
	%D%/test-sync-shared \
	%D%/test-uring \
	%D%/test-wheel
if HAVE_VERBS
test_programs += \
	%D%/test-conform-verbs \
	%D%/test-conn \
	%D%/test-conn-cycles \
	%D%/test-conn-device \
	%D%/test-conn-end \
	%D%/test-conn-state \
	%D%/test-errnos-verbs \
	%D%/test-channel \
	%D%/test-channel-end \
	%D%/test-channel-many \
	%D%/test-channel-wire \
	%D%/test-cm \
	%D%/test-dm-cards \
	%D%/test-export-rdma \
	%D%/test-message \
	%D%/test-message-end \
	%D%/test-message-state \
	%D%/test-mmap-keys \
	%D%/test-mmap-keys-cards \
	%D%/test-mmap-verbs \
	%D%/test-mmap-mw \
	%D%/test-srq \
	%D%/test-srq-fill \
	%D%/test-fork \
	%D%/test-rogue \
	%D%/test-verbs-event \
	%D%/test-verbs-rules \
	%D%/test-device-id \
	%D%/test-dm \
	%D%/test-weir-rdma-parts \
	%D%/test-mw
endif
endif

# The kinds of operation that there are.
test_op_kinds = %D%/op-kinds.c

if HAVE_CMOCKA
if HAVE_VERBS
test_programs += \
	%D%/test-engine-verbs \
	%D%/test-engine-verbs-atomic \
	%D%/test-engine-verbs-end \
	%D%/test-engine-verbs-import \
	%D%/test-sync-remote
endif
endif

# RDMA devices that are none, in place of rdma-core.
test_mock =
if HAVE_VERBS
test_mock += %D%/mock-cm.c %D%/mock-cm-connect.c %D%/mock-cm-event.c \
	%D%/mock-sim.c %D%/mock-verbs.c %D%/mock-verbs-cq.c \
	%D%/mock-verbs-event.c %D%/mock-verbs-key.c %D%/mock-verbs-memory.c \
	%D%/mock-verbs-move.c %D%/mock-verbs-post.c %D%/mock-verbs-qp.c \
	%D%/mock-verbs-side.c
endif

# A scenario of weir-sim's.
sim_verbs = %D%/sim-verbs.c %D%/sim-verbs-job.c %D%/sim-verbs-link.c \
	%D%/sim-verbs-message.c %D%/sim-verbs-target.c %D%/sim-verbs-mw.c \
	$(test_mock)

%C%_test_accel_LDADD = $(test_public)
%C%_test_atomic_LDADD = $(test_public)
%C%_test_bench_tasks_SOURCES = %D%/test-bench-tasks.c bench/tasks.c \
	bench/tasks.h
%C%_test_bench_tasks_LDADD = $(test_public)
%C%_test_bounce_LDADD = $(test_public)
%C%_test_bounce_nest_LDADD = $(test_public)
%C%_test_bounce_end_LDADD = $(test_public)
%C%_test_bounce_extra_LDADD = $(test_public)
%C%_test_channel_SOURCES = %D%/test-channel.c $(test_mock)
%C%_test_channel_end_SOURCES = %D%/test-channel-end.c $(test_mock)
%C%_test_channel_many_SOURCES = %D%/test-channel-many.c $(test_mock)

# The same cases twice: with the mock, and with what is real.
%C%_test_cm_SOURCES = %D%/test-cm.c $(test_mock)
%C%_test_cm_rdma_SOURCES = %D%/test-cm.c
%C%_test_channel_wire_SOURCES = %D%/test-channel-wire.c $(test_mock)
%C%_test_channel_wire_rdma_SOURCES = %D%/test-channel-wire.c
%C%_test_conform_LDADD = $(test_public)
%C%_test_conform_verbs_SOURCES = %D%/test-conform-verbs.c $(test_mock)
%C%_test_conform_verbs_rdma_SOURCES = %D%/test-conform-verbs.c

# The same twice: with the mock, and with what is real.
%C%_test_conn_SOURCES = %D%/test-conn.c $(test_mock)
%C%_test_conn_rdma_SOURCES = %D%/test-conn.c
test_conn_cycles = %D%/test-conn-cycles.c %D%/cycles-far.c %D%/cycles-near.c
%C%_test_conn_cycles_SOURCES = $(test_conn_cycles) $(test_mock)
%C%_test_conn_cycles_rdma_SOURCES = $(test_conn_cycles)
%C%_test_conn_device_SOURCES = %D%/test-conn-device.c $(test_mock)
%C%_test_conn_end_SOURCES = %D%/test-conn-end.c $(test_mock)
%C%_test_conn_end_rdma_SOURCES = %D%/test-conn-end.c
%C%_test_conn_state_SOURCES = %D%/test-conn-state.c $(test_mock)
%C%_test_conn_state_rdma_SOURCES = %D%/test-conn-state.c

# A peer that knows nothing of weir; in the guest only.
%C%_plain_peer_SOURCES = %D%/plain-peer.c
%C%_plain_peer_LDADD = $(VERBS_LIBS)

%C%_test_cpu_LDADD = $(test_public)
%C%_test_dm_SOURCES = %D%/test-dm.c $(test_mock)
%C%_test_descriptor_SOURCES = %D%/test-descriptor.c \
	%D%/fuzz/fuzz-descriptor.c

%C%_test_dm_cards_SOURCES = %D%/test-dm.c
%C%_test_device_caps_SOURCES = %D%/test-device-caps.c $(test_mock)
%C%_test_dmadev_LDADD = $(test_public)

# Over the mock, and over soft-RoCE.
%C%_test_engine_verbs_SOURCES = %D%/test-engine-verbs.c $(test_mock)
%C%_test_engine_verbs_atomic_SOURCES = %D%/test-engine-verbs-atomic.c \
	$(test_mock)
%C%_test_sync_remote_SOURCES = %D%/test-sync-remote.c $(test_mock)
%C%_test_sync_remote_rdma_SOURCES = %D%/test-sync-remote.c
%C%_test_engine_verbs_end_SOURCES = %D%/test-engine-verbs-end.c $(test_mock)
%C%_test_engine_verbs_import_SOURCES = %D%/test-engine-verbs-import.c \
	$(test_mock)
%C%_test_engine_verbs_rdma_SOURCES = %D%/test-engine-verbs.c
%C%_test_engine_verbs_atomic_rdma_SOURCES = %D%/test-engine-verbs-atomic.c
%C%_test_engine_verbs_end_rdma_SOURCES = %D%/test-engine-verbs-end.c
%C%_test_engine_verbs_import_rdma_SOURCES = %D%/test-engine-verbs-import.c

# Over the mock, and over soft-RoCE.
%C%_test_export_rdma_SOURCES = %D%/test-export-rdma.c $(test_mock)
%C%_test_export_rdma_rdma_SOURCES = %D%/test-export-rdma.c
%C%_test_handover_LDADD = $(test_public)
%C%_test_idle_LDADD = $(test_public)
%C%_test_job_leave_LDADD = $(test_public)
%C%_test_call_LDADD = $(test_public)
%C%_test_call_spsc_LDADD = $(test_public)
%C%_test_spsc_LDADD = $(test_public)
%C%_test_mailbox_LDADD = $(test_public)

# Over the mock, and over soft-RoCE.
%C%_test_message_SOURCES = %D%/test-message.c $(test_mock)
%C%_test_message_rdma_SOURCES = %D%/test-message.c
%C%_test_message_end_SOURCES = %D%/test-message-end.c $(test_mock)
%C%_test_message_end_rdma_SOURCES = %D%/test-message-end.c
%C%_test_message_state_SOURCES = %D%/test-message-state.c $(test_mock)
%C%_test_message_state_rdma_SOURCES = %D%/test-message-state.c
%C%_test_srq_SOURCES = %D%/test-srq.c $(test_mock)
%C%_test_srq_rdma_SOURCES = %D%/test-srq.c
%C%_test_srq_fill_SOURCES = %D%/test-srq-fill.c $(test_mock)
%C%_test_srq_fill_rdma_SOURCES = %D%/test-srq-fill.c
%C%_test_mmap_keys_SOURCES = %D%/test-mmap-keys.c $(test_mock)
%C%_test_mmap_keys_cards_SOURCES = %D%/test-mmap-keys.c
%C%_test_mmap_verbs_SOURCES = %D%/test-mmap-verbs.c $(test_mock)
%C%_test_mmap_mw_SOURCES = %D%/test-mmap-mw.c $(test_mock)
%C%_test_mmap_mw_rdma_SOURCES = %D%/test-mmap-mw.c
%C%_test_errnos_LDADD = $(test_public)
%C%_test_errnos_mem_LDADD = $(test_public)
%C%_test_errnos_verbs_SOURCES = %D%/test-errnos-verbs.c $(test_mock)
%C%_test_errnos_dma_LDADD = $(test_public)
%C%_test_errnos_host_CPPFLAGS = $(AM_CPPFLAGS) $(GLIB_CFLAGS) $(LIBUV_CFLAGS) \
	$(SYSTEMD_CFLAGS)
%C%_test_errnos_host_LDADD = $(test_public) $(GLIB_LIBS) $(LIBEV_LIBS) \
	$(LIBUV_LIBS) $(SYSTEMD_LIBS)
%C%_test_errnos_sim_LDADD = $(test_public)
%C%_test_job_fence_LDADD = $(test_public)
%C%_test_pipeline_control_LDADD = $(test_public)
%C%_test_reentry_LDADD = $(test_public)
%C%_test_reactor_LDADD = $(test_public)
%C%_test_chain_full_LDADD = $(test_public)
%C%_test_sim_LDADD = $(test_public)
%C%_test_sim_job_LDADD = $(test_public)
%C%_test_sim_memory_LDADD = $(test_public)
%C%_test_sim_net_LDADD = $(test_public)
%C%_test_sim_order_LDADD = $(test_public)
%C%_test_sim_socket_LDADD = $(test_public)
%C%_test_sim_wire_LDADD = $(test_public)
%C%_test_sim_end_LDADD = $(test_public)
%C%_test_sim_pipeline_LDADD = $(test_public)
%C%_test_sim_pool_LDADD = $(test_public)
%C%_test_sim_shared_LDADD = $(test_public)
%C%_test_sim_crash_LDADD = $(test_public)
%C%_test_sim_disk_LDADD = $(test_public)
%C%_test_sim_name_LDADD = $(test_public)
%C%_test_sim_cut_LDADD = $(test_public)
%C%_test_sim_file_job_LDADD = $(test_public)
%C%_test_sim_file_linux_LDADD = $(test_public)
%C%_test_sim_file_LDADD = $(test_public)
%C%_test_timer_LDADD = $(test_public)
%C%_test_post_LDADD = $(test_public)
%C%_test_weir_nbd_LDADD = $(test_public)
%C%_test_weir_nbd_disk_LDADD = $(test_public)
%C%_test_weir_nbd_hello_LDADD = $(test_public)
%C%_test_weir_nbd_hostile_LDADD = $(test_public)
%C%_test_weir_nbd_plugin_LDADD = $(test_public)

# What it has the server load.  The path only asks for a shared object.
if SHARED
check_LTLIBRARIES += %D%/nbd-plugin.la
endif
%C%_nbd_plugin_la_SOURCES = %D%/nbd-plugin.c %D%/nbd-plugin.h
%C%_nbd_plugin_la_LDFLAGS = $(plugin_ldflags) -rpath /nowhere
%C%_nbd_plugin_la_LIBADD = libweir.la

# What test-starved-programs.sh preloads.
if SHARED
check_LTLIBRARIES += %D%/starve.la
endif
%C%_starve_la_SOURCES = %D%/starve.c %D%/own-malloc.h
%C%_starve_la_LDFLAGS = $(plugin_ldflags) -rpath /nowhere

%C%_test_number_SOURCES = %D%/test-number.c programs/common/number.c \
	programs/common/number.h
%C%_test_number_LDADD = $(test_public)
%C%_test_weir_nbd_status_LDADD = $(test_public)

test_proxies = %D%/proxy-fixture.c
%C%_test_weir_proxy_SOURCES = %D%/test-weir-proxy.c $(test_proxies)
%C%_test_weir_proxy_LDADD = $(test_public)
%C%_test_weir_proxy_address_SOURCES = %D%/test-weir-proxy-address.c \
	$(test_proxies)
%C%_test_weir_proxy_address_LDADD = $(test_public)
%C%_test_weir_proxy_control_SOURCES = %D%/test-weir-proxy-control.c \
	$(test_proxies)
%C%_test_weir_proxy_control_LDADD = $(test_public)
%C%_test_weir_proxy_hostile_SOURCES = %D%/test-weir-proxy-hostile.c \
	$(test_proxies)
%C%_test_weir_proxy_hostile_LDADD = $(test_public)
%C%_test_weir_rdma_parts_SOURCES = %D%/test-weir-rdma-parts.c \
	programs/weir-rdma/file.c programs/weir-rdma/note.c
%C%_test_weir_rdma_parts_LDADD = $(test_public)
%C%_test_watch_LDADD = $(test_public)
%C%_test_file_LDADD = $(test_public)
%C%_test_splice_LDADD = $(test_public)
%C%_test_socket_LDADD = $(test_public)
%C%_test_drain_LDADD = $(test_public)
%C%_test_host_LDADD = $(test_public)
%C%_test_seccomp_LDADD = $(test_public)
%C%_test_own_LDADD = $(test_public)
%C%_test_fault_SOURCES = %D%/test-fault.c $(test_op_kinds)
%C%_test_op_SOURCES = %D%/test-op.c $(test_op_kinds)
%C%_test_op_LDADD = $(test_public)
%C%_test_cancel_LDADD = $(test_public)
%C%_test_stats_process_LDADD = $(test_public)

# It runs tools/weir, and a child for that to look at.

%C%_test_stats_sections_SOURCES = %D%/test-stats-sections.c $(test_mock)
%C%_test_starved_LDADD = $(test_public)
%C%_test_storm_LDADD = $(test_public)
%C%_test_verbs_event_SOURCES = %D%/test-verbs-event.c $(test_mock)

# Over the mock, and over soft-RoCE.
%C%_test_fork_SOURCES = %D%/test-fork.c $(test_mock)
%C%_test_fork_rdma_SOURCES = %D%/test-fork.c
%C%_test_rogue_SOURCES = %D%/test-rogue.c $(test_mock)
%C%_test_rogue_rdma_SOURCES = %D%/test-rogue.c
%C%_test_mw_SOURCES = %D%/test-mw.c $(test_mock)
%C%_test_mw_rdma_SOURCES = %D%/test-mw.c

# The same cases twice: with the mock, and with what is real.
test_rules = %D%/test-verbs-rules.c %D%/verbs-rules-cm.c \
	%D%/verbs-rules-connect.c %D%/verbs-rules-error.c \
	%D%/verbs-rules-memory.c %D%/verbs-rules-move.c \
	%D%/verbs-rules-queue.c %D%/verbs-rules-fixture.c \
	%D%/verbs-rules-state.c %D%/verbs-rules-unused.c
%C%_test_verbs_rules_SOURCES = $(test_rules) %D%/verbs-rules-queued.c \
	$(test_mock)
%C%_test_verbs_rules_rdma_SOURCES = $(test_rules)

test_scripts = \
	%D%/check-docs.sh \
	%D%/check-errnos.sh \
	%D%/check-examples.sh \
	%D%/check-headers.sh \
	%D%/check-install.sh \
	%D%/check-judge.sh \
	%D%/check-layers.sh \
	%D%/check-models.sh \
	%D%/check-probes.sh \
	%D%/check-rules.sh \
	%D%/check-snippets.sh \
	%D%/check-style.sh \
	%D%/check-symbols.sh \
	%D%/check-words.sh \
	%D%/interop/weir-nbd.sh \
	%D%/interop/weir-proxy.sh \
	%D%/test-export-examples.sh \
	%D%/test-nbd-embedded.sh \
	%D%/test-restart.sh \
	%D%/test-starved-programs.sh \
	%D%/test-weir-bench.sh \
	%D%/test-weir-cp-as-cp.sh \
	%D%/test-weir-cp.sh \
	%D%/test-weir-info.sh \
	%D%/test-weir-proxy-options.sh \
	%D%/test-weir-route.sh \
	%D%/test-weir-sim.sh \
	%D%/test-weir-sim-mutation.sh \
	%D%/test-weir-sim-verbs.sh

if HAVE_VERBS
test_scripts += %D%/test-weir-rdma.sh %D%/test-weir-rping.sh
endif

# What weir-sim found once.
test_seeds = \
	%D%/seeds/chains-full-reactor.seed

# What runs in a guest that has RDMA, by make check-rdma: scripts, and programs
# of above or of rdma_programs.  They find two devices (vm/guest.sh).
rdma_programs =
if HAVE_CMOCKA
if HAVE_VERBS
rdma_programs += \
	%D%/test-channel-wire-rdma \
	%D%/test-cm-rdma \
	%D%/test-conn-cycles-rdma \
	%D%/test-conn-end-rdma \
	%D%/test-conn-rdma \
	%D%/test-conn-state-rdma \
	%D%/test-export-rdma-rdma \
	%D%/test-message-end-rdma \
	%D%/test-message-rdma \
	%D%/test-message-state-rdma \
	%D%/test-mmap-mw-rdma \
	%D%/test-plain-peer \
	%D%/test-srq-fill-rdma \
	%D%/test-srq-rdma \
	%D%/test-verbs-rules-rdma
endif
endif
rdma_tests = \
	%D%/interop/weir-nbd-kernel.sh \
	%D%/test-weir-rdma.sh \
	%D%/vm/rdma-smoke.sh
if HAVE_VERBS
rdma_tests += %D%/vm/weir-rping.sh
endif
if HAVE_CMOCKA
if HAVE_VERBS
rdma_tests += \
	%D%/test-dm-cards \
	%D%/test-mmap-keys-cards \
	$(rdma_programs)
endif
endif

if HAVE_CMOCKA
if HAVE_VERBS
rdma_programs += \
	%D%/test-engine-verbs-atomic-rdma \
	%D%/test-engine-verbs-end-rdma \
	%D%/test-engine-verbs-import-rdma \
	%D%/test-engine-verbs-rdma \
	%D%/test-conform-verbs-rdma \
	%D%/test-fork-rdma \
	%D%/test-rogue-rdma \
	%D%/test-mw-rdma \
	%D%/test-sync-remote-rdma
endif
endif

# The guest itself; see vm/README.md.
test_guest = \
	%D%/vm/README.md \
	%D%/vm/check.sh \
	%D%/vm/drive.sh \
	%D%/vm/frame.h \
	%D%/vm/guest.sh \
	%D%/vm/init.c \
	%D%/vm/prepare \
	%D%/vm/rdma-smoke.sh \
	%D%/vm/relay.c \
	%D%/vm/run \
	%D%/vm/weir-rping.sh

# What check-models.sh has Spin go through.
test_models = \
	%D%/models/close.pml \
	%D%/models/group.pml \
	%D%/models/hop.pml \
	%D%/models/spsc.pml \
	%D%/models/mailbox.pml \
	%D%/models/pool.pml \
	%D%/models/sync.pml

# Programs that make no sense under valgrind, or take for ever.
not_under_valgrind =

rdma_helpers =
if HAVE_VERBS
rdma_helpers += %D%/plain-peer
endif
check_PROGRAMS += $(rdma_helpers)

# Runs another where io_uring is refused.
check_PROGRAMS += $(test_programs) $(rdma_programs) %D%/without-call \
	%D%/without-uring
TESTS += $(test_programs) $(test_scripts)
EXTRA_DIST += $(test_scripts) $(test_models) $(test_seeds) $(test_guest) \
	%D%/interop/weir-nbd-durable.py %D%/interop/weir-nbd-kernel.sh \
	%D%/interop/weir-nbd.py %D%/interop/weir-proxy.py \
	%D%/README.md %D%/cohesion.awk %D%/errnos.awk %D%/errnos.txt %D%/fixture.sh \
	%D%/man-agrees.awk %D%/skips.txt %D%/snippets.awk %D%/words.txt \
	%D%/snippets.h %D%/test-vm.sh %D%/test-weir-rdma.sh \
	%D%/test-weir-rping.sh %D%/valgrind.supp %D%/weir-cp-fixture.sh

valgrind_command = $(LIBTOOL) --mode=execute valgrind -q --error-exitcode=99 \
	--leak-check=full --errors-for-leak-kinds=definite,indirect \
	--fair-sched=yes --num-callers=24 \
	--suppressions=$(abs_top_srcdir)/tests/valgrind.supp

check-valgrind: all
if HAVE_VALGRIND_H
	WEIR_TEST_TIMEOUT=$${WEIR_TEST_TIMEOUT:-1200} $(MAKE) check \
		TEST_WRAPPER='$(valgrind_command)' TESTS="`for t in \
		$(test_programs); do case ' $(not_under_valgrind) ' in \
		*\" $$t \"*) ;; *) echo $$t ;; esac; done`"
else
	@echo 'configured without annotations for valgrind: it would hang' >&2
	@exit 1
endif

# With TSan: programs alone, and of these not those that have one thread.
without_threads = \
	%D%/test-accel \
	%D%/test-bench-tasks \
	%D%/test-buf-table \
	%D%/test-chain-full \
	%D%/test-chain-fuse \
	%D%/test-channel-end \
	%D%/test-channel-many \
	%D%/test-cm \
	%D%/test-conform-verbs \
	%D%/test-conn \
	%D%/test-conn-cycles \
	%D%/test-conn-device \
	%D%/test-conn-end \
	%D%/test-conn-state \
	%D%/test-descriptor \
	%D%/test-device-caps \
	%D%/test-device-id \
	%D%/test-dm-soft \
	%D%/test-dmadev \
	%D%/test-domain-remote \
	%D%/test-domain-user \
	%D%/test-engine \
	%D%/test-engine-verbs \
	%D%/test-engine-verbs-atomic \
	%D%/test-engine-verbs-end \
	%D%/test-engine-verbs-import \
	%D%/test-errnos \
	%D%/test-errnos-dma \
	%D%/test-errnos-host \
	%D%/test-errnos-mem \
	%D%/test-errnos-sim \
	%D%/test-errnos-verbs \
	%D%/test-export \
	%D%/test-export-hostile \
	%D%/test-export-rdma \
	%D%/test-exporter \
	%D%/test-fork \
	%D%/test-idle \
	%D%/test-inventory \
	%D%/test-message-end \
	%D%/test-message-state \
	%D%/test-mmap-keys-cards \
	%D%/test-mmap-range \
	%D%/test-mmap-register \
	%D%/test-mmap-verbs \
	%D%/test-mmap-mw \
	%D%/test-number \
	%D%/test-why \
	%D%/test-job-fence \
	%D%/test-own \
	%D%/test-pipeline-control \
	%D%/test-pool \
	%D%/test-rogue \
	%D%/test-seccomp \
	%D%/test-segment \
	%D%/test-segment-attach \
	%D%/test-segment-external \
	%D%/test-segment-flags \
	%D%/test-segment-phys \
	%D%/test-segment-validator \
	%D%/test-sim \
	%D%/test-sim-crash \
	%D%/test-sim-cut \
	%D%/test-sim-disk \
	%D%/test-sim-end \
	%D%/test-sim-file \
	%D%/test-sim-file-job \
	%D%/test-sim-file-linux \
	%D%/test-sim-job \
	%D%/test-sim-memory \
	%D%/test-sim-name \
	%D%/test-sim-net \
	%D%/test-sim-order \
	%D%/test-sim-pipeline \
	%D%/test-sim-pool \
	%D%/test-sim-shared \
	%D%/test-sim-socket \
	%D%/test-sim-wire \
	%D%/test-socket \
	%D%/test-spin \
	%D%/test-splice \
	%D%/test-srq \
	%D%/test-srq-fill \
	%D%/test-stats-open \
	%D%/test-stats-process \
	%D%/test-stats-sections \
	%D%/test-timer \
	%D%/test-translate \
	%D%/test-uring \
	%D%/test-verbs-rules \
	%D%/test-weir-nbd-status \
	%D%/test-weir-rdma-parts \
	%D%/test-weir-top \
	%D%/test-wheel \
	%D%/test-mw

# One test and what it needs: make one TEST=test-op.
one:
	@case '$(TEST)' in *.sh) ;; *) $(MAKE) %D%/'$(TEST)' ;; esac
	@rm -f %D%/'$(TEST)'.log
	@$(MAKE) check-TESTS check_PROGRAMS= check_LTLIBRARIES= \
		TESTS=%D%/'$(TEST)' || \
		{ cat %D%/`basename '$(TEST)' .sh`.log; exit 1; }

check-threads: all
	$(MAKE) check TESTS="`for t in $(test_programs); do case \
		' $(without_threads) ' in *\" $$t \"*) ;; *) echo $$t ;; esac; \
		done`"

# As distcheck, but of the tests only the scripts, which see the tree and what
# is installed, and the programs that they run: what a program tests is the same
# wherever it is built.
script_programs = %D%/without-call %D%/without-uring tools/weir-sim-mutation
if HAVE_VERBS
script_programs += tools/weir-sim-verbs
endif
if HAVE_CMOCKA
script_programs += %D%/test-weir-nbd %D%/test-weir-nbd-hello \
	%D%/test-weir-nbd-hostile
endif

distcheck-scripts:
	$(MAKE) distcheck TESTS='$(test_scripts)' \
		check_PROGRAMS='$(script_programs)'

# Tests over RDMA, in a guest: RDMA_RESULTS is where their results go.  The
# guest itself is tested before, by check-vm.
RDMA_RESULTS = check-rdma.d

check-rdma: all $(rdma_tests) $(rdma_helpers)
	@$(AM_TESTS_ENVIRONMENT) TEST_WRAPPER='$(TEST_WRAPPER)' \
		$(SHELL) $(srcdir)/%D%/vm/check.sh \
		$(RDMA_RESULTS) $(rdma_tests)

check-vm:
	@$(MAKE) check-TESTS TESTS=%D%/test-vm.sh

# Everything there is, in full, into a report; well over an hour.
check-long: all
	$(SHELL) $(top_srcdir)/build-aux/steps.sh --long \
		--report $(top_srcdir)/docs/check-long.txt \
		$(abs_top_srcdir) $(abs_builddir)/check-long.d

# The simulator for as long as a release is worth; it can be interrupted.
check-sim: tools/weir-sim
	$(SHELL) $(top_srcdir)/build-aux/sim-release.sh tools/weir-sim \
		$(top_srcdir)

.PHONY: check-long one check-rdma check-sim check-threads check-valgrind check-vm \
	distcheck-scripts
