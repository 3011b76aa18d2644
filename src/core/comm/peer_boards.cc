#include "core/comm/peer_boards.h"

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
// Operations that a rank tells about when a disagreement is looked for. Links hold fewer chunks.
constexpr uint64_t kHistory = 32;

std::optional<BoardEntry> readSoon(const Board& board) {
  std::optional<BoardEntry> entry;
  for (int i = 0; i < kReads && !entry; ++i) entry = board.read();
  return entry;
}

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
  const std::optional<BoardEntry> entry = readSoon(*in_.own);
  if (entry) sendEntry(rank, *entry, isAnswer);
}

void PeerBoards::sendEntry(int32_t rank, const BoardEntry& entry, bool isAnswer) const {
  Entered own;
  own.isAnswer = isAnswer;
  own.entry = entry;
  own.finished = in_.own->finished();
  const uint32_t to = rank < 0 ? bootstrap::kNoRank : static_cast<uint32_t>(rank);
  static_cast<void>(in_.rendezvous->sendEntered(to, own.encode()));
}

void PeerBoards::sendHistory(int32_t rank) const {
  const std::optional<BoardEntry> last = readSoon(*in_.own);
  if (!last) return;
  const uint64_t oldest = last->sequence > kHistory ? last->sequence - kHistory + 1 : 1;
  for (uint64_t sequence = oldest; sequence <= last->sequence; ++sequence)
    if (const auto entry = in_.record->find(sequence)) sendEntry(rank, *entry, true);
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
  const Agreement agreement = compareWith(news->entry);
  if (agreement == Agreement::kDiffer) return mismatch(rank, news->entry);
  if (news->isAnswer) return Status::ok();
  if (agreement == Agreement::kDifferedBefore) {
    sendHistory(rank);
  } else if (!isShared_[rank]) {
    // Whoever reads our memory knows already.
    send(rank, true);
  }
  return Status::ok();
}

Status PeerBoards::compare() const {
  const std::optional<BoardEntry> own = readSoon(*in_.own);
  bool hasAsked = false;  // one who remembers is enough
  for (int32_t peer = 0; peer < static_cast<int32_t>(boards_.size()); ++peer) {
    if (peer == in_.rank) continue;
    const std::optional<BoardEntry> theirs = readSoon(*boards_[peer]);
    if (!theirs || !own) continue;
    const Agreement agreement = compareWith(*theirs);
    if (agreement == Agreement::kDiffer) return mismatch(peer, *theirs);
    // Only it knows what it had entered when it was where we are. Rank 0 keeps what others say.
    const bool isReference = peer == 0 || in_.rank == 0;
    const bool mayBeOld = !isShared_[peer] && in_.rank != 0;
    const bool isAhead = theirs->sequence > own->sequence;
    const bool isPuzzle = agreement == Agreement::kDifferedBefore && !hasAsked;
    if (isPuzzle || (isReference && (isAhead || mayBeOld))) ask(peer);
    hasAsked |= isPuzzle;
  }
  return Status::ok();
}

PeerBoards::Agreement PeerBoards::compareWith(const BoardEntry& theirs) const {
  const std::optional<BoardEntry> mine = in_.record->find(theirs.sequence);
  if (!mine) return Agreement::kUnknown;
  if (mine->fingerprint == theirs.fingerprint) return Agreement::kAgree;
  return describe(*mine) == describe(theirs) ? Agreement::kDifferedBefore : Agreement::kDiffer;
}

Status PeerBoards::mismatch(int32_t peer, const BoardEntry& theirs) const {
  const std::optional<BoardEntry> mine = in_.record->find(theirs.sequence);
  return mismatch(peer, mine ? describe(*mine) : std::string("something else"), describe(theirs));
}

Status PeerBoards::mismatchBefore(int32_t peer, const std::string& call) const {
  return Status(Code::kInvalidUsage,
                nameOf(in_.rank) + " and " + nameOf(peer) + " called the same " + call +
                    " but did not agree about an operation before it, too long ago to tell which; "
                    "all ranks must call the same operations in the same order");
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
