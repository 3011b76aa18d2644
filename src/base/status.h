// Status and Result<T>: how every function inside omnes reports failure.
//
// OK carries no text and costs one pointer compare; a message is built only on failure, by the
// first function that sees the cause (with errno text and remedy). Callers may add context, never
// replace it. Values of Code equal omnesResult_t, so the C shim translates by a cast.
// Thread-compatible value types.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace omnes::base {

enum class Code : uint8_t {
  kOk = 0,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
  kTimeout = 8,
  kNotSupported = 64,
};

// Short fixed text for a code, e.g. "invalid argument". Never null, static storage.
const char* codeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : code_(code), message_(std::make_shared<const std::string>(std::move(message))) {}

  static Status ok() { return Status(); }
  // A system error whose message ends in the text and number of `savedErrno`.
  static Status fromErrno(int savedErrno, std::string_view what);

  bool isOk() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  // Empty when OK. Valid while this Status (or a copy) lives.
  std::string_view message() const {
    return message_ ? std::string_view(*message_) : std::string_view();
  }
  // The same code with "context: " in front of the message; OK stays OK.
  Status withContext(std::string_view context) const;

 private:
  Code code_ = Code::kOk;
  std::shared_ptr<const std::string> message_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design

  bool isOk() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // Precondition of the four accessors: isOk().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T* operator->() { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace omnes::base

#define OMNES_CONCAT_INNER_(a, b) a##b
#define OMNES_CONCAT_(a, b) OMNES_CONCAT_INNER_(a, b)

#define OMNES_RETURN_IF_ERROR(expression)                                              \
  do {                                                                                 \
    if (::omnes::base::Status status_ = (expression); !status_.isOk()) return status_; \
  } while (0)

#define OMNES_ASSIGN_OR_RETURN(declaration, expression) \
  OMNES_ASSIGN_OR_RETURN_(OMNES_CONCAT_(result_, __LINE__), declaration, expression)
#define OMNES_ASSIGN_OR_RETURN_(name, declaration, expression) \
  auto name = (expression);                                    \
  if (!name.isOk()) return name.status();                      \
  declaration = std::move(name).value()
