#include "core/bootstrap/frame.h"

#include <unistd.h>

#include "core/bootstrap/secret.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;

bool isKnown(uint16_t type) {
  return type >= 1 && type <= static_cast<uint16_t>(FrameType::kDecided);
}

// Anything a peer may send becomes one of our codes; unknown ones read as "remote error".
Code codeFromWire(uint16_t code) {
  switch (code) {
    case 0: return Code::kOk;
    case 2: return Code::kSystemError;
    case 3: return Code::kInternalError;
    case 4: return Code::kInvalidArgument;
    case 5: return Code::kInvalidUsage;
    case 8: return Code::kTimeout;
    case 64: return Code::kNotSupported;
    default: return Code::kRemoteError;
  }
}

}  // namespace

SharedFrame encodeFrame(FrameType type, Code code, uint32_t rank, uint32_t argument,
                        std::string_view payload) {
  if (type == FrameType::kError || type == FrameType::kFailed)
    payload = payload.substr(0, kMaxErrorTextBytes);
  uint8_t header[kFrameHeaderBytes];
  putLe<uint32_t>(header, static_cast<uint32_t>(payload.size()));
  putLe<uint16_t>(header + 4, static_cast<uint16_t>(type));
  putLe<uint16_t>(header + 6, static_cast<uint16_t>(code));
  putLe<uint32_t>(header + 8, rank);
  putLe<uint32_t>(header + 12, argument);
  std::string bytes(reinterpret_cast<const char*>(header), sizeof header);
  bytes.append(payload);
  return std::make_shared<const std::string>(std::move(bytes));
}

FrameType typeOf(const SharedFrame& frame) {
  return static_cast<FrameType>(getLe<uint16_t>(bytesOf(*frame).data() + 4));
}

bool FrameReader::parseHeader() {
  const auto payloadBytes = getLe<uint32_t>(&header_[0]);
  const auto type = getLe<uint16_t>(&header_[4]);
  if (payloadBytes > kMaxFramePayload || !isKnown(type)) return false;
  frame_.type = static_cast<FrameType>(type);
  frame_.code = codeFromWire(getLe<uint16_t>(&header_[6]));
  frame_.rank = getLe<uint32_t>(&header_[8]);
  frame_.argument = getLe<uint32_t>(&header_[12]);
  frame_.payload.assign(payloadBytes, '\0');
  return true;
}

FrameReader::Outcome FrameReader::read(int fd) {
  for (;;) {
    std::span<uint8_t> wanted;
    if (have_ < kFrameHeaderBytes) {
      wanted = std::span(header_).subspan(have_);
    } else {
      auto* payload = reinterpret_cast<uint8_t*>(frame_.payload.data());
      wanted = std::span(payload, frame_.payload.size()).subspan(have_ - kFrameHeaderBytes);
    }
    const IoResult result = receiveSome(fd, wanted);
    if (result.state == IoState::kAgain) return Outcome::kAgain;
    if (result.state == IoState::kClosed) return Outcome::kClosed;
    have_ += result.bytes;
    if (have_ == kFrameHeaderBytes && result.bytes != 0 && !parseHeader())
      return Outcome::kMalformed;
    if (have_ >= kFrameHeaderBytes && have_ == kFrameHeaderBytes + frame_.payload.size()) {
      have_ = 0;
      return Outcome::kFrame;
    }
  }
}

IoState FrameWriter::flush(int fd) {
  while (!queue_.empty()) {
    const IoResult result = sendSome(fd, bytesOf(*queue_.front()).subspan(sent_));
    if (result.state != IoState::kDone) return result.state;
    sent_ += result.bytes;
    if (sent_ == queue_.front()->size()) {
      queue_.pop_front();
      sent_ = 0;
    }
  }
  return IoState::kDone;
}

std::string JoinInfo::encode() const {
  const std::string_view name = std::string_view(host).substr(0, 255);
  uint8_t head[14];
  putLe<uint64_t>(head, processToken);
  putLe<uint32_t>(head + 8, pid);
  putLe<uint16_t>(head + 12, static_cast<uint16_t>(name.size()));
  std::string bytes(reinterpret_cast<const char*>(head), sizeof head);
  return bytes.append(name).append(settings);
}

Result<JoinInfo> JoinInfo::decode(std::string_view payload) {
  const auto* head = reinterpret_cast<const uint8_t*>(payload.data());
  if (payload.size() < 14) return Status(Code::kRemoteError, "a join message is too short");
  const size_t nameBytes = getLe<uint16_t>(head + 12);
  if (payload.size() - 14 < nameBytes || payload.size() - 14 - nameBytes > kMaxSettingsBytes) {
    return Status(Code::kRemoteError, "a join message has impossible lengths");
  }
  JoinInfo info;
  info.processToken = getLe<uint64_t>(head);
  info.pid = getLe<uint32_t>(head + 8);
  info.host.assign(payload.substr(14, nameBytes));
  info.settings.assign(payload.substr(14 + nameBytes));
  return info;
}

uint64_t processToken() {
  // The pid keeps a forked child, which inherits the random part, apart from its parent.
  static const uint64_t random = randomU64();
  return random ^ (static_cast<uint64_t>(::getpid()) << 32);
}

}  // namespace omnes::core::bootstrap
