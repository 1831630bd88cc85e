# What tests of reactor/ link is in tests/local.mk.
public_tests += %D%/test-call %D%/test-call-spsc %D%/test-cancel \
	%D%/test-drain %D%/test-errnos %D%/test-file %D%/test-fs %D%/test-handover \
	%D%/test-host %D%/test-idle %D%/test-mailbox %D%/test-object %D%/test-op %D%/test-op-kind \
	%D%/test-op-user \
	%D%/test-poll-hook %D%/test-post \
	%D%/test-reactor %D%/test-reentry %D%/test-rw %D%/test-seccomp \
	%D%/test-socket %D%/test-splice %D%/test-spsc %D%/test-starved %D%/test-stats-process \
	%D%/test-storm %D%/test-stream %D%/test-timer %D%/test-watch
internal_tests += %D%/test-alarm %D%/test-cached %D%/test-child %D%/test-deferred \
	%D%/test-errnos-host %D%/test-ev \
	%D%/test-fault %D%/test-fswatch %D%/test-group %D%/test-group-cpu %D%/test-group-fail \
	%D%/test-group-load %D%/test-notify %D%/test-sigpipe %D%/test-spin \
	%D%/test-stats %D%/test-stats-hostile %D%/test-stats-open \
	%D%/test-steady %D%/test-udp %D%/test-uring %D%/test-uring-entry \
	%D%/test-uring-facts %D%/test-wheel
mock_tests += %D%/test-stats-sections
model_tests += %D%/test-cancel-model %D%/test-drain-model %D%/test-file-model %D%/test-fs-model \
	%D%/test-host-model %D%/test-op-model %D%/test-reactor-model \
	%D%/test-reentry-model %D%/test-rw-model %D%/test-socket-model \
	%D%/test-splice-model %D%/test-storm-model %D%/test-timer-model \
	%D%/test-uring-facts-model %D%/test-uring-model \
	%D%/test-watch-model
test_scripts += %D%/test-ucx.sh

# The same cases over the model of io_uring.
%C%_test_cancel_model_SOURCES = %D%/test-cancel.c
%C%_test_drain_model_SOURCES = %D%/test-drain.c
%C%_test_file_model_SOURCES = %D%/test-file.c
%C%_test_fs_model_SOURCES = %D%/test-fs.c
%C%_test_host_model_SOURCES = %D%/test-host.c
%C%_test_op_model_SOURCES = %D%/test-op.c
%C%_test_reactor_model_SOURCES = %D%/test-reactor.c
%C%_test_reentry_model_SOURCES = %D%/test-reentry.c
%C%_test_rw_model_SOURCES = %D%/test-rw.c
%C%_test_socket_model_SOURCES = %D%/test-socket.c
%C%_test_splice_model_SOURCES = %D%/test-splice.c
%C%_test_storm_model_SOURCES = %D%/test-storm.c
%C%_test_timer_model_SOURCES = %D%/test-timer.c
%C%_test_uring_facts_model_SOURCES = %D%/test-uring-facts.c
%C%_test_watch_model_SOURCES = %D%/test-watch.c

%C%_test_errnos_host_CPPFLAGS = $(AM_CPPFLAGS) $(GLIB_CFLAGS) $(LIBUV_CFLAGS) \
	$(SYSTEMD_CFLAGS)
%C%_test_errnos_host_LDADD = $(test_public) $(GLIB_LIBS) $(LIBEV_LIBS) \
	$(LIBUV_LIBS) $(SYSTEMD_LIBS)

# Its memory is what the library lent to a kernel, which sanitizers do not see.
without_threads += $(model_tests)
# TSan does not know a child that shares memory until it runs its program.
without_threads += %D%/test-child
without_threads += %D%/test-errnos %D%/test-errnos-host %D%/test-ev %D%/test-idle \
	%D%/test-seccomp %D%/test-socket %D%/test-spin %D%/test-splice \
	%D%/test-stats-open %D%/test-stats-process %D%/test-stats-sections \
	%D%/test-timer %D%/test-udp %D%/test-uring %D%/test-uring-entry %D%/test-wheel
