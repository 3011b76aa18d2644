#include "core/comm/peer_boards.h"

#include <optional>

#include "core/comm/call.h"
#include "core/comm/entered.h"

namespace omnes::core {
namespace {

using base::Board;
using base::BoardEntry;
using base::Code;
using base::Status;

// The owner writes for some nanoseconds at a time.
constexpr int kReads = 100;

}  // namespace

PeerBoards::PeerBoards(const Parts& parts) : in_(parts), heard_(parts.peers->size()) {
  const size_t nranks = in_.peers->size();
  for (size_t rank = 0; rank < nranks; ++rank) {
    const bool isOwn = static_cast<int32_t>(rank) == in_.rank;
    const Board* board = isOwn ? in_.own : in_.links->boardOf(static_cast<int32_t>(rank));
    boards_.push_back(board);
    isShared_.push_back(board != nullptr);
    if (board != nullptr) continue;
    if (!replicas_) replicas_ = std::make_unique<Board[]>(nranks);
    boards_.back() = &replicas_[rank];
  }
}

void PeerBoards::send(int32_t rank, bool isAnswer) const {
  Entered own;
  own.isAnswer = isAnswer;
  std::optional<BoardEntry> entry;
  for (int i = 0; i < kReads && !entry; ++i) entry = in_.own->read();
  if (!entry) return;
  own.entry = *entry;
  own.finished = in_.own->finished();
  const uint32_t to = rank < 0 ? bootstrap::kNoRank : static_cast<uint32_t>(rank);
  static_cast<void>(in_.rendezvous->sendEntered(to, own.encode()));
}

Status PeerBoards::take(int32_t rank, std::string_view payload) {
  const std::optional<Entered> news = Entered::decode(payload);
  if (!news || rank == in_.rank) return Status::ok();
  if (!isShared_[rank]) {
    replicas_[rank].enter(news->entry);
    replicas_[rank].finish(news->finished);
    // H1: pairs with H2.
    heard_[rank].store(true, std::memory_order_release);
  }
  const std::optional<BoardEntry> mine = in_.record->find(news->entry.sequence);
  if (mine && mine->fingerprint != news->entry.fingerprint)
    return mismatch(rank, describe(*mine), describe(news->entry));
  // Whoever reads our memory knows already.
  if (!news->isAnswer && !isShared_[rank]) send(rank, true);
  return Status::ok();
}

Status PeerBoards::mismatch(int32_t peer, const std::string& mine,
                            const std::string& theirs) const {
  const std::string hint =
      theirs == mine ? ", with other counts of single ranks, or in chunks of another size: check "
                       "that all ranks pass the same counts and have the same settings"
                     : "; all ranks must call the same operations in the same order";
  return Status(Code::kInvalidUsage, nameOf(in_.rank) + " called " + mine + " but " + nameOf(peer) +
                                         " called " + theirs + hint);
}

}  // namespace omnes::core
