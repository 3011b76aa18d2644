// For code on top of the library that reports failures as the library does.
#include "api/boundary.h"

omnesResult_t omnesSetLastError(omnesResult_t result, const char* text) {
  using omnes::base::Code;
  using omnes::base::Status;
  return omnes::api::guard([&]() -> Status {
    const int value = static_cast<int>(result);
    if (text == nullptr) return Status(Code::kInvalidArgument, "text is NULL");
    const bool isFailure = (value > omnesSuccess && value < omnesNumResults &&
                            value != omnesInProgress && value != omnesUnhandledDeviceError) ||
                           value == omnesNotSupported;
    if (!isFailure) {
      return Status(Code::kInvalidArgument,
                    "result is " + std::to_string(value) + ", which is no failure");
    }
    return Status(static_cast<Code>(value), text);
  });
}
