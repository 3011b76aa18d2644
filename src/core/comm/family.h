// The ranks of one communicator that live in this process, and which threads use them: to tell a
// thread that has several ranks and forgot to group their calls from one that waits for others.
//
// Calls write a few numbers; only the slow part of a wait reads those of others. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace omnes::core {

class Family {
 public:
  // What one rank has called.
  class alignas(128) Member {
   public:
    explicit Member(int32_t rank) : rank_(rank) {}
    // After a call was sent on its way. Relaxed throughout: numbers that a late reader only takes
    // for older ones.
    void note(uint64_t sequence) {
      called_.store(sequence, std::memory_order_relaxed);
      const uint64_t me = thisThread();
      const uint64_t user = user_.load(std::memory_order_relaxed);
      if (user != me) [[unlikely]]
        user_.store(user == kNobody ? me : kSeveral, std::memory_order_relaxed);
    }
    // A call that its thread did not wait for.
    void noteEnqueued(uint64_t sequence);
    // Calls begun and ended, sends and receives too. Relaxed: as note().
    void noteBegun(uint64_t calls) { begun_.store(calls, std::memory_order_relaxed); }
    void noteEnded(uint64_t calls) { ended_.store(calls, std::memory_order_relaxed); }

   private:
    friend class Family;
    const int32_t rank_;
    std::atomic<uint64_t> called_{0};
    std::atomic<uint64_t> user_{kNobody};
    bool isBusy() const {
      // Relaxed: as note(). In this order, an end that is missed only makes it look busy.
      const uint64_t ended = ended_.load(std::memory_order_relaxed);
      return begun_.load(std::memory_order_relaxed) != ended;
    }

    std::atomic<uint64_t> begun_{0};
    std::atomic<uint64_t> ended_{0};
    std::atomic<int64_t> enqueuedAt_{0};  // nanoseconds of the monotonic clock; 0 = never
  };

  // The family with this key, which is the same for the ranks of one communicator in this process
  // and for nothing else. `ranks`: all of them.
  static std::shared_ptr<Family> of(const std::string& key, const std::vector<uint32_t>& ranks);
  explicit Family(const std::vector<uint32_t>& ranks);

  Member* memberOf(int32_t rank);
  bool hasSeveral() const { return members_.size() > 1; }

  // kInvalidUsage when `rank`, which has waited in its operation `sequence` since `start`, waits
  // for a rank of this process that nobody can call: either there is no thread but the calling one,
  // or the calling thread is the only one that has ever used the communicator, used that rank too,
  // no thread has been started since, and two seconds have passed. (Threads that only later take
  // over ranks thus have that long.) Reads /proc.
  base::Status judge(int32_t rank, uint64_t sequence, base::TimePoint start) const;

  // The same for one that waits for messages: `isAwaited` says from or to whom.
  base::Status judgeMessages(int32_t rank, const std::function<bool(int32_t)>& isAwaited,
                             base::TimePoint start) const;

  // Callbacks of streams that have not ended: they may call for any rank.
  static void addCallback();
  static void endCallback();

 private:
  static constexpr uint64_t kNobody = 0;
  static constexpr uint64_t kSeveral = 1;
  // A number for the calling thread that no other thread has ever had.
  static uint64_t thisThread() {
    if (threadNumber == 0) [[unlikely]]
      threadNumber = nextThreadNumber();
    return threadNumber;
  }
  static uint64_t nextThreadNumber();
  using IsLate = std::function<bool(const Member&)>;
  base::Status judge(int32_t rank, const IsLate& isLate, base::TimePoint start) const;
  bool isOnlyMine(const Member& late, base::TimePoint start, double youngestAge) const;

  // Initial-exec: eight bytes of the static block, so that a call needs no look-up for it.
  [[gnu::tls_model("initial-exec")]] static thread_local constinit uint64_t threadNumber;

  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace omnes::core
