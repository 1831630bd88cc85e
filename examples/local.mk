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
	%D%/24-first-world \
	%D%/25-group \
	%D%/26-spread \
	%D%/33-card \
	%D%/34-kind \
	%D%/35-scenario \
	%D%/35-without-fsync \
	%D%/36-pools \
	%D%/37-device-memory \
	%D%/38-segments \
	%D%/39-revoke \
	%D%/40-safetensors \
	%D%/42-dns-server \
	%D%/43-http-files \
	%D%/45-child \
	%D%/46-watch-files \
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
%C%_23_replicated_log_LDADD = $(weir_sim) libweir.la
%C%_24_first_world_LDADD = $(weir_sim) libweir.la
%C%_25_group_LDADD = libweir.la
%C%_26_spread_LDADD = libweir.la
%C%_33_card_SOURCES = %D%/33-card.c %D%/card.c %D%/card-hardware.h %D%/card.h
%C%_33_card_LDADD = libweir.la
%C%_34_kind_LDADD = libweir.la
%C%_35_scenario_LDADD = $(weir_sim) libweir.la
%C%_35_without_fsync_LDADD = $(weir_sim) libweir.la
%C%_35_without_fsync_CPPFLAGS = $(AM_CPPFLAGS) -DWITHOUT_FSYNC
%C%_35_without_fsync_SOURCES = %D%/35-scenario.c
%C%_36_pools_LDADD = libweir.la
%C%_37_device_memory_LDADD = libweir.la
%C%_38_segments_LDADD = libweir.la
%C%_39_revoke_LDADD = libweir.la
%C%_45_child_LDADD = libweir.la
%C%_46_watch_files_LDADD = libweir.la
%C%_40_safetensors_LDADD = libweir-cuda.la libweir.la
%C%_43_http_files_SOURCES = %D%/43-http-files.c %D%/http.h
%C%_43_http_files_LDADD = libweir.la
%C%_42_dns_server_LDADD = libweir.la
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

# Operations whose work other libraries do.
if HAVE_CARES
noinst_PROGRAMS += %D%/30-resolver
endif
%C%_30_resolver_SOURCES = %D%/30-resolver.c %D%/dns-server.h
%C%_30_resolver_CPPFLAGS = $(AM_CPPFLAGS) $(CARES_CFLAGS)
%C%_30_resolver_LDADD = libweir.la $(CARES_LIBS)

if HAVE_OPENSSL
noinst_PROGRAMS += %D%/31-tls-client
endif
%C%_31_tls_client_SOURCES = %D%/31-tls-client.c %D%/tls-server.h
%C%_31_tls_client_CPPFLAGS = $(AM_CPPFLAGS) $(LIBSSL_CFLAGS)
%C%_31_tls_client_LDADD = libweir.la $(LIBSSL_LIBS) \
	$(OPENSSL_LIBS)

if HAVE_UCX
noinst_PROGRAMS += %D%/32-ucx
endif
%C%_32_ucx_SOURCES = %D%/32-ucx.c %D%/ucx-peer.h
%C%_32_ucx_CPPFLAGS = $(AM_CPPFLAGS) $(UCX_CFLAGS)
%C%_32_ucx_LDADD = libweir.la $(UCX_LIBS)

if HAVE_LIBFABRIC
noinst_PROGRAMS += %D%/41-fabric
endif
%C%_41_fabric_LDADD = $(weir_fabric) libweir.la

if HAVE_NVME
noinst_PROGRAMS += %D%/47-nvme
endif
%C%_47_nvme_LDADD = $(weir_nvme) libweir.la

noinst_PROGRAMS += %D%/44-connect-by-name
%C%_44_connect_by_name_LDADD = libweir-resolve.la libweir.la

# weir in C++.
if HAVE_CXX
noinst_PROGRAMS += %D%/29-copy-in-cpp
endif
%C%_29_copy_in_cpp_SOURCES = %D%/29-copy-in-cpp.cc
%C%_29_copy_in_cpp_LDADD = libweir.la

EXTRA_DIST += \
	%D%/LICENSE \
	%D%/demo.sh \
	%D%/guested.h \
	%D%/hosted.h
