// The framed messages that follow the proof between a rank and the meeting host (docs/wire.md), and
// incremental reading and writing of them on non-blocking sockets.
//
// A reader takes memory for a payload only from a peer that has proven itself, and never more than
// kMaxFramePayload. Value types; one thread at a time per object.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "core/bootstrap/socket_io.h"
#include "core/bootstrap/wire.h"

namespace omnes::core::bootstrap {

inline constexpr size_t kFrameHeaderBytes = 16;

// Values are on the wire.
enum class FrameType : uint16_t {
  kJoin = 1,  // rank -> host: argument = milliseconds left (0 = no deadline); payload: JoinInfo
  kMet = 2,   // host -> rank: all are here; payload: MetInfo
  kBlob = 3,  // rank -> host: argument = round; payload: u32 milliseconds left, blob. host -> rank:
              // payload = blob
  kError = 4,    // a first cause: rank, code, text; passed on to all others
  kGone = 5,     // host -> rank: the connection of `rank` closed without a goodbye
  kGoodbye = 6,  // rank -> host, and passed on: `rank` has left in order
  kFailed = 7,   // host -> rank: the meeting has failed: code, text; the last frame
  kEntered = 8,  // what `rank` is doing: argument = the rank it is for, kNoRank = all others;
                 // payload is the communicator's. Passed on as far as there is room: it is repeated
  kReport = 9,   // council: what `rank` brings; argument = milliseconds left; payload: a Report
  kKnock = 10,   // council: the same without a blob, from who presides to who is late
  kDecided = 11,  // council: the end, after the blobs of all who take part; payload: a Decision
};

struct Frame {
  FrameType type = FrameType::kError;
  base::Code code = base::Code::kOk;
  uint32_t rank = 0;
  uint32_t argument = 0;
  std::string payload;
};

inline constexpr size_t kMaxEnteredBytes = 128;

// Encoded once, sent to many.
using SharedFrame = std::shared_ptr<const std::string>;
// Error texts are cut to kMaxErrorTextBytes. Precondition: payload at most kMaxFramePayload.
SharedFrame encodeFrame(FrameType type, base::Code code, uint32_t rank, uint32_t argument,
                        std::string_view payload);

FrameType typeOf(const SharedFrame& frame);

class FrameReader {
 public:
  enum class Outcome : uint8_t { kFrame, kAgain, kClosed, kMalformed };
  // Reads until one frame is complete (then take it by frame()) or nothing more is there.
  Outcome read(int fd);
  Frame& frame() { return frame_; }

 private:
  bool parseHeader();

  std::array<uint8_t, kFrameHeaderBytes> header_{};
  size_t have_ = 0;  // of header and payload together
  Frame frame_;
};

class FrameWriter {
 public:
  void push(SharedFrame frame) { queue_.push_back(std::move(frame)); }
  // kDone: all is sent.
  IoState flush(int fd);
  bool isEmpty() const { return queue_.empty(); }
  size_t frames() const { return queue_.size(); }

 private:
  std::deque<SharedFrame> queue_;
  size_t sent_ = 0;  // of the front frame
};

// Who joins, in the payload of kJoin: u64 process token, u32 pid, u16 host length, host, settings
// text.
struct JoinInfo {
  uint64_t processToken = 0;
  uint32_t pid = 0;
  std::string host;
  std::string settings;

  std::string encode() const;
  static base::Result<JoinInfo> decode(std::string_view payload);
};

// Random, the same for all threads of a process: which ranks live in one process.
uint64_t processToken();

}  // namespace omnes::core::bootstrap
