# What tests of programs/ link is in tests/local.mk.
public_tests += %D%/test-bench-tasks %D%/test-number %D%/test-weir-nbd \
	%D%/test-weir-nbd-disk %D%/test-weir-nbd-hello \
	%D%/test-weir-nbd-hostile %D%/test-weir-nbd-plugin \
	%D%/test-weir-nbd-status %D%/test-weir-proxy \
	%D%/test-weir-proxy-address %D%/test-weir-proxy-control \
	%D%/test-weir-proxy-header %D%/test-weir-proxy-hostile \
	%D%/test-weir-proxy-targets %D%/test-weir-ublk %D%/test-weir-vhost
if HAVE_VERBS
public_tests += %D%/test-weir-rdma-parts
endif
internal_tests += %D%/test-weir-top
test_scripts += %D%/test-hardening.sh %D%/test-help.sh %D%/test-nbd-embedded.sh %D%/test-restart.sh \
	%D%/test-starved-programs.sh %D%/test-units.sh \
	%D%/test-weir-cp-as-cp.sh %D%/test-weir-cp-convert.sh \
	%D%/test-weir-cp.sh %D%/test-weir-info.sh \
	%D%/test-weir-proxy-options.sh %D%/test-weir-route.sh \
	%D%/test-weir-trace.sh %D%/test-weir-ublk-options.sh
if HAVE_OPENSSL
test_scripts += %D%/test-weir-proxy-tls.sh
endif
rdma_tests += %D%/test-weir-rdma.sh
if HAVE_VERBS
test_scripts += %D%/test-weir-rdma.sh %D%/test-weir-rping.sh
endif

%C%_test_bench_tasks_SOURCES = %D%/test-bench-tasks.c bench/tasks.c \
	bench/tasks.h
%C%_test_number_SOURCES = %D%/test-number.c programs/common/number.c \
	programs/common/number.h
%C%_test_weir_proxy_header_SOURCES = %D%/test-weir-proxy-header.c \
	programs/weir-proxy/address.c programs/weir-proxy/header.c \
	programs/common/number.c programs/common/number.h
# Its functions of the library that the driver answers are the test's.
%C%_test_weir_ublk_SOURCES = %D%/test-weir-ublk.c programs/weir-ublk/control.c \
	programs/weir-ublk/list.c programs/weir-ublk/options.c programs/weir-ublk/queue.c \
	programs/weir-ublk/server.c
%C%_test_weir_ublk_CPPFLAGS = $(AM_CPPFLAGS) -Dweir_uring_submit=driver_submit
%C%_test_weir_ublk_LDADD = programs/block/libblock.a $(common) $(test_public) -ldl
%C%_test_weir_rdma_parts_SOURCES = %D%/test-weir-rdma-parts.c \
	programs/weir-rdma/file.c programs/weir-rdma/note.c

# The installed programs in simulated worlds; libweir-sim-libc comes before libc.
if SHARED
check_PROGRAMS += %D%/worlds-nbd %D%/worlds-proxy %D%/worlds-ublk %D%/worlds-vhost
test_scripts += %D%/test-worlds.sh
endif
worlds_libs = libweir-sim-libc.la $(weir_sim) libweir.la
worlds_disk = %D%/worlds.h %D%/worlds-disk.c %D%/worlds-disk.h
%C%_worlds_nbd_SOURCES = $(worlds_disk) %D%/worlds-nbd.c
%C%_worlds_nbd_LDADD = $(nbd_server) $(worlds_libs)
%C%_worlds_proxy_SOURCES = %D%/worlds.h %D%/worlds-proxy.c \
	programs/weir-proxy/address.c programs/weir-proxy/buffer.c \
	programs/weir-proxy/check.c programs/weir-proxy/names.c \
	programs/weir-proxy/target.c \
	programs/weir-proxy/config.c programs/weir-proxy/conn.c \
	programs/weir-proxy/control.c programs/weir-proxy/core.c \
	programs/weir-proxy/flow.c programs/weir-proxy/header.c \
	programs/weir-proxy/listener.c programs/weir-proxy/log-line.c programs/weir-proxy/no-tls.c \
	programs/weir-proxy/log.c programs/weir-proxy/open.c \
	programs/weir-proxy/options.c programs/weir-proxy/pipe.c
%C%_worlds_proxy_LDADD = $(common) libweir-resolve.la $(worlds_libs)
# The driver answers a function of the library.
%C%_worlds_ublk_SOURCES = $(worlds_disk) %D%/worlds-ublk.c \
	programs/weir-ublk/control.c programs/weir-ublk/list.c \
	programs/weir-ublk/options.c programs/weir-ublk/queue.c \
	programs/weir-ublk/server.c
%C%_worlds_ublk_CPPFLAGS = $(AM_CPPFLAGS) -Dweir_uring_submit=driver_submit
%C%_worlds_ublk_LDADD = $(block) $(worlds_libs)
%C%_worlds_vhost_SOURCES = $(worlds_disk) %D%/worlds-vhost.c \
	programs/weir-vhost/blk.c programs/weir-vhost/device.c \
	programs/weir-vhost/memory.c programs/weir-vhost/message.c \
	programs/weir-vhost/options.c programs/weir-vhost/ring.c
%C%_worlds_vhost_LDADD = $(block) $(worlds_libs)

# What tests have weir info and the server load, and what test-starved-programs.sh preloads.
# The path only asks for a shared object.
if SHARED
check_LTLIBRARIES += %D%/info-provider.la %D%/nbd-plugin.la %D%/starve.la
endif
%C%_info_provider_la_SOURCES = %D%/info-provider.c
%C%_info_provider_la_LDFLAGS = $(plugin_ldflags) -rpath /nowhere
%C%_info_provider_la_LIBADD = libweir.la
%C%_nbd_plugin_la_SOURCES = %D%/nbd-plugin.c %D%/nbd-plugin.h
%C%_nbd_plugin_la_LDFLAGS = $(plugin_ldflags) -rpath /nowhere
%C%_nbd_plugin_la_LIBADD = libweir.la
%C%_starve_la_SOURCES = %D%/starve.c
%C%_starve_la_LDFLAGS = $(plugin_ldflags) -rpath /nowhere

without_threads += %D%/test-bench-tasks %D%/test-number \
	%D%/test-weir-nbd-status %D%/test-weir-rdma-parts %D%/test-weir-top
