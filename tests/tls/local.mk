# TLS: two ends in one process, and one of them by openssl(1).
tls_tests += %D%/test-tls
test_scripts += %D%/test-tls-openssl.sh
check_PROGRAMS += %D%/tls-peer
%C%_tls_peer_LDADD = libweir-tls.la libweir.la
