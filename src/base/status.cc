#include "base/status.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace omnes::base {

const char* codeName(Code code) {
  switch (code) {
    case Code::kOk: return "success";
    case Code::kSystemError: return "system error";
    case Code::kInternalError: return "internal error";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kInvalidUsage: return "invalid usage";
    case Code::kRemoteError: return "remote error";
    case Code::kInProgress: return "in progress";
    case Code::kTimeout: return "timeout";
    case Code::kNotSupported: return "not supported";
  }
  return "unknown result code";
}

Status Status::fromErrno(int savedErrno, std::string_view what) {
  char text[128];
  // GNU strerror_r: returns a pointer that may or may not be `text`.
  const char* reason = strerror_r(savedErrno, text, sizeof text);
  std::string message(what);
  message.append(": ")
      .append(reason)
      .append(" (errno ")
      .append(std::to_string(savedErrno))
      .append(")");
  rlimit limit;
  if (savedErrno == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    message.append("; this process may open ")
        .append(std::to_string(limit.rlim_cur))
        .append(" files (ulimit -n)");
  }
  return Status(Code::kSystemError, std::move(message));
}

Status Status::withContext(std::string_view context) const {
  if (isOk()) return *this;
  std::string text(context);
  text.append(": ").append(message());
  return Status(code_, std::move(text));
}

}  // namespace omnes::base
