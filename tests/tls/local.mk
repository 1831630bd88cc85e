# TLS: two ends in one process, and the other end by openssl(1).
tls_tests += %D%/test-tls
