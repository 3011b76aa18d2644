#include "core/bootstrap/resolver.h"

#include <netdb.h>
#include <poll.h>

#include <cstring>
#include <memory>
#include <mutex>

#include "base/event.h"
#include "core/bootstrap/detached_thread.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Status;

struct AddrInfoDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// Shared by the asker, who may leave early, and the thread that asks.
struct Question {
  explicit Question(base::EventFd event) : answered(std::move(event)) {}
  base::EventFd answered;
  std::mutex mutex;
  AddressList answer = Status();  // guarded by mutex
};

}  // namespace

AddressList lookUp(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, AddrInfoDeleter> owner(found);
  if (error != 0) {
    return Status(Code::kSystemError,
                  "the host name '" + host + "' cannot be resolved: " + ::gai_strerror(error));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  if (addresses.empty())
    return Status(Code::kSystemError, "the host name '" + host + "' has no address");
  return addresses;
}

AddressList resolveNameWith(std::function<AddressList()> ask, const std::string& host,
                            const WaitLimits& limits) {
  const std::string what = "resolving the host name '" + host + "'";
  OMNES_ASSIGN_OR_RETURN(base::EventFd event, base::EventFd::open());
  const auto question = std::make_shared<Question>(std::move(event));
  OMNES_RETURN_IF_ERROR(startDetachedThread("omnes-resolve", [question, ask = std::move(ask)] {
    AddressList answer = ask();
    {
      const std::lock_guard<std::mutex> lock(question->mutex);
      question->answer = std::move(answer);
    }
    question->answered.signal();
  }));
  const Status status = waitFor(question->answered.fd(), POLLIN, limits, what);
  if (status.code() == Code::kTimeout) {
    return Status(Code::kTimeout,
                  std::string(status.message()) +
                      ": the system's resolver does not answer; a numeric address needs none");
  }
  OMNES_RETURN_IF_ERROR(status);
  const std::lock_guard<std::mutex> lock(question->mutex);
  return std::move(question->answer);
}

AddressList resolveName(const std::string& host, const std::string& port,
                        const WaitLimits& limits) {
  return resolveNameWith([host, port] { return lookUp(host, port, 0); }, host, limits);
}

}  // namespace omnes::core::bootstrap
