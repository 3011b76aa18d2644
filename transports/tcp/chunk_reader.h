// Takes chunks from the bytes of one data socket.
//
// Payload goes straight to its place. What else comes (headers, and with small chunks many of them
// at once) is read into a buffer that all sockets of the endpoint share: it is used up at once, but
// for the start of a header, which is kept here. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "transports/tcp/frame.h"
#include "transports/tcp/window.h"

namespace omnes::transports::tcp {

// The links that a member may send on; it makes them when they are first needed.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  // Null when the chunk may not come; then *why says so.
  virtual Incoming::Slot* admit(const ChunkHeader& header, std::string* why) = 0;
};

// How reading ended.
struct ReadEnd {
  enum class Kind : uint8_t {
    kEmpty,    // nothing more for now
    kClosed,   // the peer has closed it, between two frames
    kBroken,   // an error, or the end in the middle of a frame
    kInvalid,  // what came is no chunk that may come; nothing after it can be read
  };
  Kind kind = Kind::kEmpty;
  int error = 0;     // kBroken: errno
  std::string text;  // kInvalid
  bool hasMoved = false;
};

class ChunkReader {
 public:
  // Reads all that there is. `scratch` holds at least two headers.
  ReadEnd read(int fd, std::span<uint8_t> scratch, Arrivals* arrivals);

 private:
  // False when the bytes are not valid.
  bool parse(std::span<const uint8_t> bytes, Arrivals* arrivals, std::string* why);
  void advancePayload(size_t bytes);

  Incoming::Slot* slot_ = nullptr;  // whose payload is under way
  uint64_t received_ = 0;           // of its payload
  uint8_t header_[kChunkHeaderBytes];
  size_t headerBytes_ = 0;
  // The last chunk was a large one. Then the next is likely to be one too, and only its header is
  // read with the rest of this one, so that none of its payload has to be copied.
  bool expectsLarge_ = false;
};

}  // namespace omnes::transports::tcp
