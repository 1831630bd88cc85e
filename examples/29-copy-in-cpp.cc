// SPDX-License-Identifier: CC0-1.0

// weir in C++17: a file is copied block by block, eight of them at a time.
//
//	29-copy-in-cpp [FROM TO]
//
// weir's headers are C, which C++ reads as they are.  What is better in C++ are
// three small things, to be copied from here:
//
//	Held		weir's objects in a std::unique_ptr, so that they go in
//			the right order
//	Loop		a reactor; what a callback throws comes out of run()
//	Operation	one whose callback is a lambda
//
// Without arguments it copies something of its own, and looks at what came out.

#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/buf.h>
#include <weir/file.h>
#include <weir/pool.h>
#include <weir/reactor.h>

namespace {

// A negative errno becomes an exception.
std::int64_t check(std::int64_t res, const char *what)
{
	if (res < 0)
		throw std::system_error(static_cast<int>(-res),
					std::generic_category(), what);
	return res;
}

// Some of these functions say how it went.  A destructor cannot throw, and what
// is still in use stays: it says so.
template <auto destroy> struct Destroy {
	template <class T> void operator()(T *object) const noexcept
	{
		if constexpr (std::is_void_v<decltype(destroy(object))>)
			destroy(object);
		else if (destroy(object) != 0)
			std::fprintf(stderr, "%s\n", weir_why());
	}
};

template <class T, auto destroy>
using Held = std::unique_ptr<T, Destroy<destroy>>;

using Reactor = Held<weir_reactor, weir_reactor_destroy>;
using Pool = Held<weir_pool, weir_pool_destroy>;
using Buffer = Held<weir_buf, weir_buf_put>;

// The first exception stops the reactor.  That cancels what is in flight, and
// run() throws it only when all callbacks have come: so nothing that unwinding
// destroys is in use any more.
class Loop {
public:
	Loop()
	{
		weir_reactor *r;

		check(weir_reactor_create(&r, nullptr), "make a reactor");
		reactor_.reset(r);
	}

	weir_reactor *get() const { return reactor_.get(); }

	void stop() { weir_reactor_stop(get()); }

	// Call @fn as a callback is called.
	template <class Fn> void guard(Fn &&fn) noexcept
	{
		try {
			fn();
		} catch (...) {
			if (!thrown_)
				thrown_ = std::current_exception();
			stop();
		}
	}

	// Call @begin, and run until stop().
	template <class Fn> void run(Fn &&begin)
	{
		guard(begin);
		check(weir_reactor_run(get()), "run the reactor");
		if (thrown_)
			std::rethrow_exception(thrown_);
	}

private:
	Reactor reactor_;
	std::exception_ptr thrown_;
};

// An operation, and what comes after it.  There it may be started again, or be
// destroyed; it may not be moved, for weir has its address.
class Operation : private weir_op {
public:
	explicit Operation(Loop &loop) : weir_op(), loop_(loop)
	{
		weir_op_init(this, done);
	}

	Operation(const Operation &) = delete;
	Operation &operator=(const Operation &) = delete;

	// @start is given the reactor and the operation, and calls one of weir's
	// functions; @then is given the result.
	template <class Start, class Then>
	void start(Start &&start, Then &&then)
	{
		then_ = std::forward<Then>(then);
		check(start(loop_.get(), static_cast<weir_op *>(this)),
		      "start an operation");
	}

private:
	// Both are taken out first: what is called may end this object.
	static void done(weir_op *op, std::int64_t res)
	{
		auto *self = static_cast<Operation *>(op);
		auto then = std::move(self->then_);

		self->loop_.guard([&] { then(res); });
	}

	Loop &loop_;
	std::function<void(std::int64_t)> then_;
};

// What there is to copy; each worker takes the next block of it.
struct Copy {
	Loop &loop;
	int from, to;
	std::uint64_t next = 0, copied = 0;
	unsigned int running = 0;
};

// A buffer that goes to and fro: a block is read into it, and written from it.
class Worker {
public:
	Worker(Copy &copy, weir_pool *pool) : copy_(copy), op_(copy.loop)
	{
		weir_buf *buf;

		check(weir_pool_get(&buf, pool), "take a buffer");
		buf_.reset(buf);
		size_ = weir_pool_buf_size(pool);
		copy_.running++;
	}

	void read()
	{
		off_ = copy_.next;
		copy_.next += size_;
		op_.start([&](weir_reactor *r, weir_op *op) {
			return weir_read(r, op, copy_.from, data(), size_,
					 off_);
		}, [this](std::int64_t n) { write(check(n, "read")); });
	}

private:
	void *data() const { return weir_buf_addr(buf_.get()); }

	// What is less than a block is the last of it, or nothing.
	void write(std::int64_t n)
	{
		auto len = static_cast<std::size_t>(n);

		if (len == 0) {
			end();
			return;
		}
		op_.start([&](weir_reactor *r, weir_op *op) {
			return weir_write(r, op, copy_.to, data(), len, off_);
		}, [this](std::int64_t written) {
			copy_.copied += check(written, "write");
			read();
		});
	}

	void end()
	{
		if (--copy_.running == 0)
			copy_.loop.stop();
	}

	Copy &copy_;
	Operation op_;
	Buffer buf_;
	std::size_t size_;
	std::uint64_t off_ = 0;
};

constexpr unsigned int workers_max = 8;

Pool make_pool(Loop &loop)
{
	weir_pool_opts opts = {};
	weir_pool *pool;

	opts.size = sizeof(opts);
	opts.bufs = workers_max;
	check(weir_pool_create(&pool, loop.get(), &opts), "make a pool");
	return Pool(pool);
}

// Returns how many bytes there were.  What is made last goes first: the workers
// and their buffers, then the pool, then the reactor.
std::uint64_t copy_file(int from, int to)
{
	Loop loop;
	Pool pool = make_pool(loop);
	Copy copy = { loop, from, to };
	std::vector<std::unique_ptr<Worker>> workers;

	for (unsigned int i = 0; i < workers_max; i++)
		workers.push_back(std::make_unique<Worker>(copy, pool.get()));
	loop.run([&] {
		for (auto &worker : workers)
			worker->read();
	});
	return copy.copied;
}

class File {
public:
	explicit File(int fd) : fd_(fd)
	{
		if (fd < 0)
			check(-errno, "open");
	}

	File(const File &) = delete;
	File &operator=(const File &) = delete;
	~File() { close(fd_); }
	int fd() const { return fd_; }

private:
	int fd_;
};

std::string content(int fd, std::size_t len)
{
	std::string s(len + 1, '\0');
	ssize_t n = pread(fd, s.data(), s.size(), 0);

	s.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
	return s;
}

// Of odd length, so that the last block is none.
void try_it()
{
	File from(memfd_create("from", MFD_CLOEXEC));
	File to(memfd_create("to", MFD_CLOEXEC));
	std::string text;

	while (text.size() < 3000000)
		text += std::to_string(text.size()) + " bytes so far\n";
	if (write(from.fd(), text.data(), text.size()) !=
	    static_cast<ssize_t>(text.size()))
		check(-errno, "write");
	if (copy_file(from.fd(), to.fd()) != text.size() ||
	    content(to.fd(), text.size()) != text)
		throw std::runtime_error("the copy is not what it was");
	std::printf("%zu bytes copied\n", text.size());
}

// What goes wrong in a callback comes out here, and leaves nothing behind.
void try_to_fail()
{
	File from(memfd_create("from", MFD_CLOEXEC));
	File to(open("/dev/null", O_RDONLY | O_CLOEXEC));

	if (ftruncate(from.fd(), 1000000))
		check(-errno, "ftruncate");
	try {
		copy_file(from.fd(), to.fd());
	} catch (const std::system_error &e) {
		std::printf("not to be written to: %s\n", e.what());
		return;
	}
	throw std::runtime_error("what cannot be written was");
}

void copy_named(const char *from_name, const char *to_name)
{
	File from(open(from_name, O_RDONLY | O_CLOEXEC));
	File to(open(to_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));

	std::printf("%ju bytes copied\n",
		    std::uintmax_t{copy_file(from.fd(), to.fd())});
}

} // namespace

int main(int argc, char **argv)
{
	try {
		if (argc == 3) {
			copy_named(argv[1], argv[2]);
		} else {
			try_it();
			try_to_fail();
		}
	} catch (const std::exception &e) {
		std::fprintf(stderr, "29-copy-in-cpp: %s\n", e.what());
		return 1;
	}
	return 0;
}
