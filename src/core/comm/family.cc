#include "core/comm/family.h"

#include <map>
#include <mutex>

#include "base/tasks.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Status;

constexpr auto kGrace = std::chrono::seconds(2);

std::atomic<int64_t> callbacks{0};

const base::Clock& clock() { return base::Clock::monotonic(); }

struct Families {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Family>> byKey;
};

Families& families() {
  // Never destroyed, since communicators may outlive static destructors.
  static Families* const instance = std::make_unique<Families>().release();
  return *instance;
}

}  // namespace

thread_local constinit uint64_t Family::threadNumber = 0;

uint64_t Family::nextThreadNumber() {
  static std::atomic<uint64_t> last{kSeveral};
  // Relaxed: only has to be unique.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Relaxed, both: a count that is read long after.
void Family::addCallback() { callbacks.fetch_add(1, std::memory_order_relaxed); }
void Family::endCallback() { callbacks.fetch_sub(1, std::memory_order_relaxed); }

Family::Family(const std::vector<uint32_t>& ranks) {
  for (const uint32_t rank : ranks)
    members_.push_back(std::make_unique<Member>(static_cast<int32_t>(rank)));
}

std::shared_ptr<Family> Family::of(const std::string& key, const std::vector<uint32_t>& ranks) {
  const std::lock_guard<std::mutex> lock(families().mutex);
  auto& byKey = families().byKey;
  std::erase_if(byKey, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Family>& known = byKey[key];
  if (std::shared_ptr<Family> family = known.lock()) return family;
  auto made = std::make_shared<Family>(ranks);
  known = made;
  return made;
}

Family::Member* Family::memberOf(int32_t rank) {
  for (const std::unique_ptr<Member>& member : members_)
    if (member->rank_ == rank) return member.get();
  return nullptr;
}

void Family::Member::noteEnqueued(uint64_t sequence) {
  note(sequence);
  // Relaxed: as note().
  enqueuedAt_.store(clock().now().sinceStart.count(), std::memory_order_relaxed);
}

Status Family::judge(int32_t rank, uint64_t sequence, base::TimePoint start) const {
  return judge(
      rank,
      [sequence](const Member& member) {
        // Relaxed: as note().
        return member.called_.load(std::memory_order_relaxed) < sequence;
      },
      start);
}

Status Family::judgeMessages(int32_t rank, const std::function<bool(int32_t)>& isAwaited,
                             base::TimePoint start) const {
  return judge(
      rank, [&](const Member& member) { return !member.isBusy() && isAwaited(member.rank_); },
      start);
}

Status Family::judge(int32_t rank, const IsLate& isLate, base::TimePoint start) const {
  const Member* late = nullptr;
  for (const std::unique_ptr<Member>& member : members_)
    if (member->rank_ != rank && isLate(*member)) late = member.get();
  // Relaxed: a callback that has just ended may be taken for one that runs, which only delays us.
  if (late == nullptr || callbacks.load(std::memory_order_relaxed) > 0) return Status::ok();
  const auto others = base::otherTasks();
  if (!others) return Status::ok();
  if (others->count > 0 && !isOnlyMine(*late, start, others->youngestAge)) return Status::ok();
  // A call of another thread would be seen, had there been another thread.
  if (!isLate(*late)) return Status::ok();
  return Status(Code::kInvalidUsage,
                "this thread waits in a call of rank " + std::to_string(rank) + " for rank " +
                    std::to_string(late->rank_) +
                    " of the same communicator, which only this thread could call: put the calls "
                    "of one thread for several ranks between omnesGroupStart and omnesGroupEnd");
}

bool Family::isOnlyMine(const Member& late, base::TimePoint start, double youngestAge) const {
  const base::TimePoint now = clock().now();
  if (now - start < kGrace) return false;
  const uint64_t me = thisThread();
  // Relaxed, all: as note().
  if (late.user_.load(std::memory_order_relaxed) != me) return false;
  for (const std::unique_ptr<Member>& member : members_) {
    const uint64_t user = member->user_.load(std::memory_order_relaxed);
    if (user != me && user != kNobody) return false;
  }
  const int64_t enqueuedAt = late.enqueuedAt_.load(std::memory_order_relaxed);
  if (enqueuedAt == 0) return false;
  const double since = static_cast<double>(now.sinceStart.count() - enqueuedAt) * 1e-9;
  constexpr double kTick = 0.05;  // ages are only known to a hundredth
  return youngestAge > since + kTick;
}

}  // namespace omnes::core
