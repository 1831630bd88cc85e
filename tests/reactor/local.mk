# What tests of reactor/ link is in tests/local.mk.
public_tests += %D%/test-call %D%/test-call-spsc %D%/test-cancel \
	%D%/test-drain %D%/test-errnos %D%/test-file %D%/test-handover \
	%D%/test-host %D%/test-idle %D%/test-mailbox %D%/test-object %D%/test-op %D%/test-op-user \
	%D%/test-poll-hook %D%/test-post \
	%D%/test-reactor %D%/test-reentry %D%/test-rw %D%/test-seccomp \
	%D%/test-socket %D%/test-splice %D%/test-spsc %D%/test-starved %D%/test-stats-process \
	%D%/test-storm %D%/test-timer %D%/test-watch
internal_tests += %D%/test-deferred %D%/test-errnos-host %D%/test-ev \
	%D%/test-fault %D%/test-group %D%/test-group-cpu %D%/test-group-fail \
	%D%/test-group-load %D%/test-notify %D%/test-sigpipe %D%/test-spin \
	%D%/test-stats %D%/test-stats-hostile %D%/test-stats-open \
	%D%/test-steady %D%/test-uring %D%/test-uring-entry \
	%D%/test-wheel
mock_tests += %D%/test-stats-sections
test_scripts += %D%/test-ucx.sh

%C%_test_errnos_host_CPPFLAGS = $(AM_CPPFLAGS) $(GLIB_CFLAGS) $(LIBUV_CFLAGS) \
	$(SYSTEMD_CFLAGS)
%C%_test_errnos_host_LDADD = $(test_public) $(GLIB_LIBS) $(LIBEV_LIBS) \
	$(LIBUV_LIBS) $(SYSTEMD_LIBS)

without_threads += %D%/test-errnos %D%/test-errnos-host %D%/test-ev %D%/test-idle \
	%D%/test-seccomp %D%/test-socket %D%/test-spin %D%/test-splice \
	%D%/test-stats-open %D%/test-stats-process %D%/test-stats-sections \
	%D%/test-timer %D%/test-uring %D%/test-uring-entry %D%/test-wheel
