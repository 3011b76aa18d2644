// One other member of an endpoint: its connections, what waits to be sent to it, and what has come.
//
// Once a connection of it has ended, a member is going away: nothing is sent to it any more, but
// what it has sent before is still read. When all data sockets have ended in order, all has been
// read. When one breaks, what is already here is read from all of them, and that is the end, since
// nobody knows what is missing. The control connection may break in either case (tcp.h says why).
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/event.h"
#include "base/fd.h"
#include "base/fork.h"
#include "base/status.h"
#include "transports/streams.h"
#include "transports/tcp/chunk_queue.h"
#include "transports/tcp/chunk_reader.h"
#include "transports/tcp/credit_channel.h"
#include "transports/tcp/window.h"

namespace omnes::transports::tcp {

// What the members of an endpoint share.
struct Shared {
  Shared(Endpoint* owner, size_t slots);

  BufferPool* poolOf(uint8_t stream);

  Endpoint* endpoint;
  size_t slotBytes;
  base::Epoll* epoll = nullptr;
  std::vector<uint8_t> scratch;
  std::vector<Credit> credits;  // that were just read
  std::string failure;          // not empty: a member broke the rules, or the system failed us
  int32_t unsentMembers = 0;    // to whom something waits to be sent
  const uint32_t forkGeneration = base::forkGeneration();

 private:
  BufferPool exchange_, body_, signal_;
};

class Member final : public Arrivals {
 public:
  // `shared` must outlive it.
  Member(Shared* shared, int32_t place, int32_t rank)
      : shared_(shared), place_(place), rank_(rank) {}
  ~Member() override;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // The first one is for control. In events, the number of a socket stands below that of the
  // member: eventTag() and back.
  base::Status takeSockets(std::vector<base::UniqueFd> sockets);
  static constexpr int kSocketBits = 8;

  int32_t rank() const { return rank_; }
  // Made when first asked for, by us or by what arrives. Owned by the member.
  Incoming* incoming(uint8_t stream);
  // It gives credits for a link of ours, as its reader number `reader`. Borrows the link.
  void addReader(Outgoing* link, size_t reader) { readers_[link->stream()] = {link, reader}; }

  bool canSend() const { return !isEnding_; }
  bool canReceive() const { return openData_ != 0; }
  // Why not.
  std::string whyGone() const;

  // Becomes a user of the buffer until it is sent, or nobody is there to send it to.
  void send(Buffer* buffer);
  // After a chunk of the link was used up.
  void consumed(Incoming* link);
  // Something may be read from or written to a socket; whether something moved.
  bool onEvent(size_t socket, uint32_t events);
  // Sends what can be sent now; whether something moved.
  bool flush();

  Incoming::Slot* admit(const ChunkHeader& header, std::string* why) override;

 private:
  struct Socket {
    base::UniqueFd fd;
    bool isBlocked = false;  // it took less than it was given; wait for room
    bool asksForRoom = false;
  };
  struct DataSocket : Socket {
    ChunkReader reader;
    Buffer* current = nullptr;  // partly sent
    size_t sent = 0;
  };
  struct Reader {
    Outgoing* link = nullptr;
    size_t index = 0;
  };

  bool readControl();
  bool readData(DataSocket* socket);
  bool flushData();
  // Whether it can take more.
  bool sendOn(DataSocket* socket, bool* moved);
  bool flushCredits();
  void askForRoom(Socket* socket, size_t number, bool wanted);
  void settle();

  void applyCredits();
  void end(Socket* socket);
  void beginEnding(int error);
  void endControl(int error);
  void endData(DataSocket* socket);
  void breakOff(int error);
  void refuse(const std::string& text);

  Shared* shared_;
  int32_t place_;
  int32_t rank_;
  Socket control_;
  std::vector<DataSocket> data_;
  size_t openData_ = 0;
  size_t turn_ = 0;     // the data socket that is asked next
  size_t partial_ = 0;  // data sockets with a current chunk
  ChunkQueue queue_;
  CreditChannel creditChannel_;
  std::unique_ptr<Incoming> incoming_[kStreams];
  Reader readers_[kStreams];
  bool isEnding_ = false;
  int cause_ = 0;  // errno of the first error, 0 = closed in order
  bool countsAsUnsent_ = false;
};

}  // namespace omnes::transports::tcp
