# What tests of rdma/ link is in tests/local.mk.
internal_tests += %D%/test-device-id %D%/test-dm-cards \
	%D%/test-mmap-keys-cards
mock_tests += %D%/test-channel %D%/test-channel-end %D%/test-channel-many \
	%D%/test-channel-wire %D%/test-cm %D%/test-conform-verbs %D%/test-conn \
	%D%/test-conn-cycles %D%/test-conn-device %D%/test-conn-end \
	%D%/test-conn-state %D%/test-dm %D%/test-engine-verbs \
	%D%/test-engine-verbs-atomic %D%/test-engine-verbs-end \
	%D%/test-engine-verbs-import %D%/test-errnos-verbs \
	%D%/test-export-rdma %D%/test-fork %D%/test-late %D%/test-message \
	%D%/test-message-end %D%/test-message-state %D%/test-mmap-keys \
	%D%/test-mmap-mw %D%/test-mmap-verbs %D%/test-mw %D%/test-rogue \
	%D%/test-srq %D%/test-srq-fill %D%/test-sync-remote \
	%D%/test-verbs-event %D%/test-verbs-rules
rdma_programs += %D%/test-channel-wire-rdma %D%/test-cm-rdma \
	%D%/test-conform-verbs-rdma %D%/test-conn-cycles-rdma \
	%D%/test-conn-end-rdma %D%/test-conn-rdma %D%/test-conn-state-rdma \
	%D%/test-engine-verbs-atomic-rdma %D%/test-engine-verbs-end-rdma \
	%D%/test-engine-verbs-import-rdma %D%/test-engine-verbs-rdma \
	%D%/test-export-rdma-rdma %D%/test-fork-rdma %D%/test-late-rdma \
	%D%/test-message-end-rdma \
	%D%/test-message-rdma %D%/test-message-state-rdma \
	%D%/test-mmap-mw-rdma %D%/test-mw-rdma %D%/test-plain-peer \
	%D%/test-rogue-rdma %D%/test-srq-fill-rdma %D%/test-srq-rdma \
	%D%/test-sync-remote-rdma %D%/test-verbs-rules-rdma
rdma_tests += tests/vm/weir-rping.sh %D%/test-dm-cards %D%/test-mmap-keys-cards
rdma_helpers += %D%/plain-peer

# The same cases twice: over the mock, and over what is real.
%C%_test_cm_rdma_SOURCES = %D%/test-cm.c
%C%_test_channel_wire_rdma_SOURCES = %D%/test-channel-wire.c
%C%_test_conform_verbs_rdma_SOURCES = %D%/test-conform-verbs.c
%C%_test_conn_rdma_SOURCES = %D%/test-conn.c
test_conn_cycles = %D%/test-conn-cycles.c %D%/cycles-far.c %D%/cycles-far.h \
	%D%/cycles-near.c %D%/cycles-near.h
%C%_test_conn_cycles_SOURCES = $(test_conn_cycles)
%C%_test_conn_cycles_rdma_SOURCES = $(test_conn_cycles)
%C%_test_conn_end_rdma_SOURCES = %D%/test-conn-end.c
%C%_test_conn_state_rdma_SOURCES = %D%/test-conn-state.c
# A peer that knows nothing of weir.
%C%_plain_peer_LDADD = $(VERBS_LIBS)
%C%_test_dm_cards_SOURCES = %D%/test-dm.c
%C%_test_sync_remote_rdma_SOURCES = %D%/test-sync-remote.c
%C%_test_engine_verbs_rdma_SOURCES = %D%/test-engine-verbs.c
%C%_test_engine_verbs_atomic_rdma_SOURCES = %D%/test-engine-verbs-atomic.c
%C%_test_engine_verbs_end_rdma_SOURCES = %D%/test-engine-verbs-end.c
%C%_test_engine_verbs_import_rdma_SOURCES = %D%/test-engine-verbs-import.c
%C%_test_export_rdma_rdma_SOURCES = %D%/test-export-rdma.c
%C%_test_late_rdma_SOURCES = %D%/test-late.c
%C%_test_message_rdma_SOURCES = %D%/test-message.c
%C%_test_message_end_rdma_SOURCES = %D%/test-message-end.c
%C%_test_message_state_rdma_SOURCES = %D%/test-message-state.c
%C%_test_srq_rdma_SOURCES = %D%/test-srq.c
%C%_test_srq_fill_rdma_SOURCES = %D%/test-srq-fill.c
%C%_test_mmap_keys_cards_SOURCES = %D%/test-mmap-keys.c
%C%_test_mmap_mw_rdma_SOURCES = %D%/test-mmap-mw.c
%C%_test_fork_rdma_SOURCES = %D%/test-fork.c
%C%_test_rogue_rdma_SOURCES = %D%/test-rogue.c
%C%_test_mw_rdma_SOURCES = %D%/test-mw.c
test_rules = %D%/test-verbs-rules.c %D%/verbs-rules-cm.c %D%/verbs-rules-cm.h \
	%D%/verbs-rules-connect.c %D%/verbs-rules-error.c \
	%D%/verbs-rules-fixture.c %D%/verbs-rules-memory.c \
	%D%/verbs-rules-move.c %D%/verbs-rules-queue.c \
	%D%/verbs-rules-state.c %D%/verbs-rules-unused.c %D%/verbs-rules.h
%C%_test_verbs_rules_SOURCES = $(test_rules) %D%/verbs-rules-queued.c
%C%_test_verbs_rules_rdma_SOURCES = $(test_rules)

without_threads += %D%/test-channel-end %D%/test-channel-many %D%/test-cm \
	%D%/test-conform-verbs %D%/test-conn %D%/test-conn-cycles \
	%D%/test-conn-device %D%/test-conn-end %D%/test-conn-state \
	%D%/test-device-id %D%/test-engine-verbs %D%/test-engine-verbs-atomic \
	%D%/test-engine-verbs-end %D%/test-engine-verbs-import \
	%D%/test-errnos-verbs %D%/test-export-rdma %D%/test-fork %D%/test-late \
	%D%/test-message-end %D%/test-message-state %D%/test-mmap-keys-cards \
	%D%/test-mmap-mw %D%/test-mmap-verbs %D%/test-mw %D%/test-rogue \
	%D%/test-srq %D%/test-srq-fill %D%/test-verbs-rules
