# Examples use public headers only, and are nobody's property: CC0.
noinst_PROGRAMS += \
	%D%/01-operation \
	%D%/02-timer \
	%D%/03-echo-server \
	%D%/12-user-domain \
	%D%/13-export \
	%D%/14-import \
	%D%/15-sync-event \
	%D%/16-local-copy \
	%D%/17-lists \
	%D%/18-push-pull \
	%D%/19-pipeline \
	%D%/20-bounce \
	%D%/21-chain \
	%D%/22-deadline \
	%D%/23-replicated-log \
	%D%/23-without-fsync \
	%D%/24-first-world \
	%D%/25-group \
	%D%/26-spread \
	%D%/hello

%C%_01_operation_LDADD = libweir.la
%C%_02_timer_LDADD = libweir.la
%C%_03_echo_server_LDADD = libweir.la
%C%_12_user_domain_LDADD = libweir.la
%C%_13_export_LDADD = libweir.la
%C%_14_import_LDADD = libweir.la
%C%_15_sync_event_LDADD = libweir.la
%C%_16_local_copy_LDADD = libweir.la
%C%_17_lists_LDADD = libweir.la
%C%_18_push_pull_LDADD = libweir.la
%C%_19_pipeline_LDADD = libweir.la
%C%_20_bounce_LDADD = libweir.la
%C%_21_chain_LDADD = libweir.la
%C%_22_deadline_LDADD = libweir.la
%C%_23_replicated_log_LDADD = libweir.la
%C%_23_without_fsync_LDADD = libweir.la
%C%_23_without_fsync_CPPFLAGS = $(AM_CPPFLAGS) -DWITHOUT_FSYNC
%C%_23_without_fsync_SOURCES = %D%/23-replicated-log.c
%C%_24_first_world_LDADD = libweir.la
%C%_25_group_LDADD = libweir.la
%C%_26_spread_LDADD = libweir.la
%C%_hello_LDADD = libweir.la

# Other loops with a reactor inside, and the other way round.
if HAVE_LIBEV
noinst_PROGRAMS += \
	%D%/04-host-libev \
	%D%/08-libev-in-weir \
	%D%/27-nbd-in-libev
endif
%C%_04_host_libev_LDADD = libweir.la $(LIBEV_LIBS)
%C%_08_libev_in_weir_LDADD = libweir.la $(LIBEV_LIBS)
%C%_27_nbd_in_libev_SOURCES = %D%/27-nbd-in-libev.c %D%/nbd-visitor.h
%C%_27_nbd_in_libev_LDADD = $(nbd_server) $(LIBEV_LIBS)

if HAVE_LIBUV
noinst_PROGRAMS += \
	%D%/05-host-libuv \
	%D%/09-libuv-in-weir
endif
%C%_05_host_libuv_CPPFLAGS = $(AM_CPPFLAGS) $(LIBUV_CFLAGS)
%C%_05_host_libuv_LDADD = libweir.la $(LIBUV_LIBS)
%C%_09_libuv_in_weir_CPPFLAGS = $(AM_CPPFLAGS) $(LIBUV_CFLAGS)
%C%_09_libuv_in_weir_LDADD = libweir.la $(LIBUV_LIBS)

if HAVE_GLIB
noinst_PROGRAMS += \
	%D%/06-host-glib \
	%D%/10-glib-in-weir \
	%D%/28-nbd-in-glib
endif
%C%_06_host_glib_CPPFLAGS = $(AM_CPPFLAGS) $(GLIB_CFLAGS)
%C%_06_host_glib_LDADD = libweir.la $(GLIB_LIBS)
%C%_10_glib_in_weir_CPPFLAGS = $(AM_CPPFLAGS) $(GLIB_CFLAGS)
%C%_10_glib_in_weir_LDADD = libweir.la $(GLIB_LIBS)
%C%_28_nbd_in_glib_CPPFLAGS = $(AM_CPPFLAGS) $(GLIB_CFLAGS)
%C%_28_nbd_in_glib_SOURCES = %D%/28-nbd-in-glib.c %D%/nbd-visitor.h
%C%_28_nbd_in_glib_LDADD = $(nbd_server) $(GLIB_LIBS)

if HAVE_SYSTEMD
noinst_PROGRAMS += \
	%D%/07-host-sd-event \
	%D%/11-sd-event-in-weir
endif
%C%_07_host_sd_event_CPPFLAGS = $(AM_CPPFLAGS) $(SYSTEMD_CFLAGS)
%C%_07_host_sd_event_LDADD = libweir.la $(SYSTEMD_LIBS)
%C%_11_sd_event_in_weir_CPPFLAGS = $(AM_CPPFLAGS) $(SYSTEMD_CFLAGS)
%C%_11_sd_event_in_weir_LDADD = libweir.la $(SYSTEMD_LIBS)

# weir in C++.
if HAVE_CXX
noinst_PROGRAMS += %D%/29-copy-in-cpp
endif
%C%_29_copy_in_cpp_SOURCES = %D%/29-copy-in-cpp.cc
%C%_29_copy_in_cpp_LDADD = libweir.la

EXTRA_DIST += \
	%D%/LICENSE \
	%D%/guested.h \
	%D%/hosted.h

# What several of the programs below need.
noinst_LIBRARIES = %D%/common/libcommon.a
%C%_common_libcommon_a_SOURCES = \
	%D%/common/listen-unix.c \
	%D%/common/listen-unix.h \
	%D%/common/number.c \
	%D%/common/number.h \
	%D%/common/option.c \
	%D%/common/option.h
common = %D%/common/libcommon.a

# A program large enough to be of use: see weir-cp/README.md.
bin_PROGRAMS += %D%/weir-cp/weir-cp
%C%_weir_cp_weir_cp_LDFLAGS = $(program_ldflags)
%C%_weir_cp_weir_cp_SOURCES = \
	%D%/weir-cp/attrs.c \
	%D%/weir-cp/dir.c \
	%D%/weir-cp/extent.c \
	%D%/weir-cp/file-finish.c \
	%D%/weir-cp/file-open.c \
	%D%/weir-cp/file.c \
	%D%/weir-cp/lane.c \
	%D%/weir-cp/links.c \
	%D%/weir-cp/main.c \
	%D%/weir-cp/node.c \
	%D%/weir-cp/options.c \
	%D%/weir-cp/output.c \
	%D%/weir-cp/progress.c \
	%D%/weir-cp/stream.c \
	%D%/weir-cp/target.c \
	%D%/weir-cp/walk.c \
	%D%/weir-cp/weir-cp.h
%C%_weir_cp_weir_cp_LDADD = $(common) libweir.la
EXTRA_DIST += %D%/demo.sh %D%/weir-cp/README.md

# Block devices over a network: see weir-nbd/README.md.  The server is a library
# of its own here, for programs that have it inside.
noinst_LIBRARIES += %D%/weir-nbd/libserver.a
%C%_weir_nbd_libserver_a_SOURCES = \
	%D%/weir-nbd/batch.c \
	%D%/weir-nbd/cells.c \
	%D%/weir-nbd/conn.c \
	%D%/weir-nbd/core.c \
	%D%/weir-nbd/domain.c \
	%D%/weir-nbd/export.c \
	%D%/weir-nbd/file.c \
	%D%/weir-nbd/hello.c \
	%D%/weir-nbd/listen.c \
	%D%/weir-nbd/memory.c \
	%D%/weir-nbd/options.c \
	%D%/weir-nbd/pages.c \
	%D%/weir-nbd/peer.c \
	%D%/weir-nbd/plug.c \
	%D%/weir-nbd/plug.h \
	%D%/weir-nbd/reply.c \
	%D%/weir-nbd/request.c \
	%D%/weir-nbd/say.c \
	%D%/weir-nbd/server.c \
	%D%/weir-nbd/server.h \
	%D%/weir-nbd/status.c \
	%D%/weir-nbd/weir-nbd.h
nbd_server = %D%/weir-nbd/libserver.a $(common) libweir.la -ldl

bin_PROGRAMS += %D%/weir-nbd/weir-nbd
%C%_weir_nbd_weir_nbd_LDFLAGS = $(program_ldflags)
%C%_weir_nbd_weir_nbd_SOURCES = %D%/weir-nbd/main.c
%C%_weir_nbd_weir_nbd_LDADD = $(nbd_server)
EXTRA_DIST += %D%/weir-nbd/README.md

# What others need to write plugins for it, and two of them.  A plugin uses the
# server's libweir, so there must be a shared one; the plugin does not name it:
# libtool would link the plugin again at each installation, for one prefix only.
nbdincludedir = $(includedir)/weir-nbd
nbdinclude_HEADERS = %D%/weir-nbd/plug.h
nbdplugdir = $(libdir)/weir-nbd
nbdplug_LTLIBRARIES =
if SHARED
nbdplug_LTLIBRARIES += %D%/weir-nbd/cipher.la %D%/weir-nbd/import.la
endif
plug_ldflags = $(AM_LDFLAGS) -module -avoid-version -shared
%C%_weir_nbd_cipher_la_SOURCES = %D%/weir-nbd/cipher.c %D%/weir-nbd/plug.h
%C%_weir_nbd_cipher_la_LDFLAGS = $(plug_ldflags)
%C%_weir_nbd_import_la_SOURCES = %D%/weir-nbd/import.c %D%/weir-nbd/plug.h
%C%_weir_nbd_import_la_LDFLAGS = $(plug_ldflags)

# Files by RDMA: see weir-rdma/README.md.
bin_PROGRAMS += %D%/weir-rdma/weir-rdma
%C%_weir_rdma_weir_rdma_LDFLAGS = $(program_ldflags)
%C%_weir_rdma_weir_rdma_SOURCES = \
	%D%/weir-rdma/client.c \
	%D%/weir-rdma/file.c \
	%D%/weir-rdma/main.c \
	%D%/weir-rdma/move.c \
	%D%/weir-rdma/note.c \
	%D%/weir-rdma/options.c \
	%D%/weir-rdma/say.c \
	%D%/weir-rdma/serve.c \
	%D%/weir-rdma/staging.c \
	%D%/weir-rdma/transfer.c \
	%D%/weir-rdma/weir-rdma.h
%C%_weir_rdma_weir_rdma_LDADD = $(common) libweir.la
EXTRA_DIST += %D%/weir-rdma/README.md

# The other end of rdmacm-utils' rping: see weir-rping/README.md.
bin_PROGRAMS += %D%/weir-rping/weir-rping
%C%_weir_rping_weir_rping_LDFLAGS = $(program_ldflags)
%C%_weir_rping_weir_rping_SOURCES = \
	%D%/weir-rping/client.c \
	%D%/weir-rping/main.c \
	%D%/weir-rping/options.c \
	%D%/weir-rping/server.c \
	%D%/weir-rping/session.c \
	%D%/weir-rping/weir-rping.h
%C%_weir_rping_weir_rping_LDADD = $(common) libweir.la
EXTRA_DIST += %D%/weir-rping/README.md

# Connections in and out, and bytes between them: see weir-proxy/README.md.
bin_PROGRAMS += %D%/weir-proxy/weir-proxy
%C%_weir_proxy_weir_proxy_LDFLAGS = $(program_ldflags)
%C%_weir_proxy_weir_proxy_SOURCES = \
	%D%/weir-proxy/address.c \
	%D%/weir-proxy/buffer.c \
	%D%/weir-proxy/config.c \
	%D%/weir-proxy/conn.c \
	%D%/weir-proxy/control.c \
	%D%/weir-proxy/core.c \
	%D%/weir-proxy/flow.c \
	%D%/weir-proxy/header.c \
	%D%/weir-proxy/listener.c \
	%D%/weir-proxy/log-line.c \
	%D%/weir-proxy/log.c \
	%D%/weir-proxy/main.c \
	%D%/weir-proxy/open.c \
	%D%/weir-proxy/options.c \
	%D%/weir-proxy/pipe.c \
	%D%/weir-proxy/weir-proxy.h
%C%_weir_proxy_weir_proxy_LDADD = $(common) libweir.la
EXTRA_DIST += %D%/weir-proxy/README.md
