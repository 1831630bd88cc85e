#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weir-nbd with TLS, and clients that others wrote, which have it from GnuTLS: libnbd's and
# QEMU's, over each backend; and the handshake byte by byte.
# shellcheck disable=SC2317,SC2329 # Each t_ function is called by run.
# shellcheck source=tests/support/fixture.sh
. "${srcdir:-$(dirname "$0")/../..}/tests/support/fixture.sh"
program=$(absolute "${WEIR_NBD:-programs/weir-nbd/weir-nbd}")
here=$(absolute "${srcdir:-$(dirname "$0")/../..}/tests/interop")
weir=$(absolute "${WEIR:-tools/weir}")
enter weir-nbd-tls

server=
size=16M

# signed NAME HOST: by the CA.
signed()
{
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout "$1-key.pem" -out req -subj "/CN=$2" 2>cert.out
	printf 'subjectAltName=DNS:%s,IP:127.0.0.1\n' "$2" >ext
	openssl x509 -req -in req -CA ca-cert.pem -CAkey ca-key.pem \
		-CAcreateserial -out "$1-cert.pem" -days 2 -extfile ext \
		2>cert.out
}

# What nbdkit and QEMU call so, in a directory for each end.
certificates()
{
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout ca-key.pem -out ca-cert.pem -subj /CN=CA -days 2 \
		2>cert.out
	signed server localhost
	signed client client
	mkdir -p server client stranger
	cp ca-cert.pem server-*.pem server
	cp ca-cert.pem client-*.pem client
	cp ca-cert.pem stranger
	echo "ann:$(openssl rand -hex 32)" >keys.psk
	mkdir -p wrong
	echo "ann:$(openssl rand -hex 32)" >wrong/keys.psk
}

# serve OPTION...: and wait until it listens at $port.
serve()
{
	rm -f listening
	[ -e file ] || truncate -s $size file
	"$program" --cores=2 --port=0 "$@" --export=name=file,path=file \
		--export=name=memory,size=$size >listening 2>server-err &
	server=$!
	until grep -q ' port ' listening 2>/dev/null; do
		kill -0 "$server" 2>/dev/null || {
			wrong "no server: $(cat server-err)"
			return
		}
		sleep 0.01
	done
	port=$(sed 's/.* port //' listening)
}

end()
{
	kill "$server"
	wait "$server" || wrong "the server's status is $?: $(cat server-err)"
}

by_cert() { echo "nbds://localhost:$port/$1?tls-certificates=$dir/${2:-client}"; }
by_key() { echo "nbds://ann@localhost:$port/$1?tls-psk-file=$dir/${2:-keys.psk}"; }
plain() { echo "nbd://localhost:$port/$1"; }
raw() { expect 0 python3 "$here/weir-nbd-tls.py" "$port" "$1" ca-cert.pem; }

# copies URL
copies()
{
	expect 0 nbdcopy source "$1"
	expect 0 nbdcopy "$1" back
	cmp -s source back || wrong "$1: not what was written"
	expect 0 nbdcopy --synchronous --request-size=32768 "$1" back
	cmp -s source back || wrong "$1: not what was written"
}

t_nbdcopy_copies_by_certificates()
{
	serve --tls-certificates=server
	copies "$(by_cert file)"
	copies "$(by_cert memory)"
	end
}

t_nbdcopy_copies_by_keys()
{
	serve --tls-psk=keys.psk
	copies "$(by_key file)"
	copies "$(by_key memory)"
	end
}

t_one_server_has_both()
{
	serve --tls-certificates=server --tls-psk=keys.psk
	expect 0 nbdinfo --is tls "$(by_key file)"
	expect 0 nbdinfo --is tls "$(by_cert file)"
	end
}

t_nbdsh_tries_each_command()
{
	serve --tls-psk=keys.psk
	for export in file memory; do
		expect 0 env NBD_URI="$(by_key $export)" "$python" \
			"$here/weir-nbd.py"
	done
	end
}

# qemu_image CREDENTIALS...: with them as tls0.
qemu_image()
{
	image="driver=nbd,host=localhost,port=$port,export=memory,tls-creds=tls0"
	expect 0 qemu-img convert -n --object "$1,id=tls0,endpoint=client" \
		--image-opts driver=raw,file.driver=file,file.filename=source \
		--target-image-opts "$image"
	expect 0 qemu-img convert --object "$1,id=tls0,endpoint=client" \
		--image-opts "$image" -O raw back
	cmp -s source back || wrong "$1: not what was written"
}

t_qemu_img_converts()
{
	serve --tls-certificates=server --tls-psk=keys.psk
	qemu_image "tls-creds-x509,dir=$dir/client"
	qemu_image "tls-creds-psk,dir=$dir,username=ann"
	end
}

t_clients_without_tls_are_refused_or_not()
{
	serve --tls-certificates=server
	expect 1 nbdinfo "$(plain file)"
	end
	serve --tls-certificates=server --tls=on
	expect 0 nbdinfo "$(plain file)"
	shows 'without TLS'
	expect 0 nbdinfo --is tls "$(by_cert file)"
	end
	serve --tls-certificates=server --tls=off
	expect 0 nbdinfo "$(plain file)"
	expect 1 nbdinfo "$(by_cert file)"
	end
}

t_clients_need_what_the_server_wants()
{
	serve --tls-certificates=server --tls-verify-peer
	expect 0 nbdinfo "$(by_cert file)"
	expect 1 nbdinfo "$(by_cert file stranger)"
	says alert
	grep -q '127.0.0.1 is refused: TLS: peer did not return a certificate' \
		server-err || wrong "the server said $(cat server-err)"
	end
	serve --tls-psk=keys.psk
	expect 1 nbdinfo "$(by_key file wrong/keys.psk)"
	expect 1 nbdinfo "$(by_cert file)"
	expect 0 nbdinfo "$(by_key file)"
	end
}

t_servers_need_what_the_client_wants()
{
	cp client-cert.pem stranger/server-cert.pem
	cp client-key.pem stranger/server-key.pem
	serve --tls-certificates=stranger
	expect 1 nbdinfo "$(by_cert file)"
	end
	rm stranger/server-*.pem
}

t_only_tls_is_allowed_before() { over raw only_tls_is_allowed_before; }
t_bytes_behind_starttls_are_no_options()
{
	over raw bytes_behind_starttls_are_no_options
}
t_handshake_may_come_at_once() { over raw handshake_may_come_at_once; }
t_tls_is_not_begun_twice() { over raw tls_is_not_begun_twice; }
t_end_is_said() { over raw end_is_said; }

t_choices_of_before_are_forgotten()
{
	serve --tls-certificates=server --tls=on
	raw choices_of_before_are_forgotten
	end
}

t_clients_that_are_cut_leave_nothing()
{
	serve --tls-certificates=server
	expect 0 nbdinfo "$(by_cert file)"
	before=$(find "/proc/$server/fd" -type l | wc -l)
	raw clients_that_are_cut_leave_nothing
	for _ in $(seq 1000); do
		[ "$(find "/proc/$server/fd" -type l | wc -l)" = "$before" ] &&
			break
		sleep 0.01
	done
	[ "$(find "/proc/$server/fd" -type l | wc -l)" = "$before" ] ||
		wrong "descriptors are left"
	copies "$(by_cert file)"
	end
}

t_slow_handshake_is_cut()
{
	serve --tls-certificates=server --handshake=1
	raw slow_handshake_is_cut
	end
}

over()
{
	serve --tls-certificates=server
	"$@"
	end
}

t_certificate_is_read_again()
{
	mkdir -p live
	cp stranger/ca-cert.pem client-cert.pem client-key.pem live
	mv live/client-cert.pem live/server-cert.pem
	mv live/client-key.pem live/server-key.pem
	serve --tls-certificates=live
	expect 1 nbdinfo "$(by_cert file)"
	cp server/server-*.pem live
	kill -HUP "$server"
	for _ in $(seq 1000); do
		nbdinfo "$(by_cert file)" >/dev/null 2>&1 && break
		sleep 0.01
	done
	expect 0 nbdinfo "$(by_cert file)"
	rm live/server-key.pem
	kill -HUP "$server"
	becomes server-err 'TLS: .*cannot read'
	expect 0 nbdinfo "$(by_cert file)"
	end
}

t_wrong_options_are_refused()
{
	expect 2 "$program" --tls=maybe file
	says 'off, on or require'
	expect 2 "$program" --tls=on file
	says 'needs --tls-certificates or --tls-psk'
	expect 2 "$program" --tls-verify-peer --tls-psk=keys.psk file
	says 'needs --tls-certificates'
	expect 3 "$program" --tls-certificates=missing file
	says 'cannot read missing/server-cert.pem'
	expect 3 "$program" --tls-certificates=client file
	says 'cannot read client/server-cert.pem'
	echo 'ann:12' >bad.psk
	expect 3 "$program" --tls-psk=bad.psk file
	says 'bad.psk, line 1'
}

certificates
truncate -s $size source
dd if=/dev/urandom of=source bs=64k count=40 conv=notrunc 2>/dev/null
dd if=/dev/urandom of=source bs=64k count=9 seek=99 conv=notrunc 2>/dev/null

for backend in $(backends); do
	WEIR_BACKEND=$backend
	export WEIR_BACKEND
	reason=$(no_backend "$backend" "$weir")
	[ -z "$reason" ] || {
		result ok 'all of it' "$reason"
		continue
	}
	nbd=$(lacks nbdcopy)
	run t_nbdcopy_copies_by_certificates "$nbd"
	run t_nbdcopy_copies_by_keys "$nbd"
	run t_one_server_has_both "$nbd"
	lacks_python_nbd >lacking
	run t_nbdsh_tries_each_command "$(cat lacking)"
	run t_qemu_img_converts "$(lacks qemu-img)"
	run t_clients_without_tls_are_refused_or_not "$nbd"
	run t_clients_need_what_the_server_wants "$nbd"
	run t_servers_need_what_the_client_wants "$nbd"
	run t_only_tls_is_allowed_before
	run t_bytes_behind_starttls_are_no_options
	run t_handshake_may_come_at_once
	run t_choices_of_before_are_forgotten
	run t_tls_is_not_begun_twice
	run t_end_is_said
	run t_clients_that_are_cut_leave_nothing "$nbd"
	run t_slow_handshake_is_cut
	run t_certificate_is_read_again "$nbd"
	run t_wrong_options_are_refused
done
echo "1..$n"
exit $bad
