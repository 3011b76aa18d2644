// Communicators out of communicators: split, shrink, grow; and what goes with broken ones: revoke,
// who has failed.
#include <algorithm>
#include <cstring>

#include "api/boundary.h"
#include "api/query.h"
#include "api/wish.h"
#include "core/comm/derivation.h"

namespace {

using omnes::api::Entry;
using omnes::api::guard;
using omnes::api::guardInit;
using omnes::api::JoinPlan;
using omnes::api::nullPointer;
using omnes::api::query;
using omnes::base::Code;
using omnes::base::Result;
using omnes::base::Status;
using omnes::core::AbortSignal;
using omnes::core::Communicator;
using omnes::core::Origin;
using omnes::core::ShrinkWish;
using omnes::core::Turn;

Status checkParent(omnesComm_t comm, const Entry& entry) {
  if (!entry.isIn()) return omnes::api::whyNotIn(comm);
  if (comm->isFinalized) return Status(Code::kInvalidUsage, "comm was finalized before");
  return Status::ok();
}

// What the new communicator is to be: as its origin, or as the config says.
Result<Origin> originOf(omnesComm_t comm, const omnesConfig_t* config) {
  Origin origin;
  origin.settings = comm->communicator->settings();
  if (config != nullptr) {
    OMNES_ASSIGN_OR_RETURN(const omnes::base::Config environment, omnes::api::readEnvironment());
    OMNES_ASSIGN_OR_RETURN(omnes::api::Wish wish, omnes::api::readWish(environment, config));
    origin.settings = std::move(wish.settings);
  }
  origin.turn = std::make_shared<Turn>(comm->communicator->roster());
  return origin;
}

Status split(omnesComm_t comm, int color, int key, omnesComm_t* newcomm,
             const omnesConfig_t* config) {
  const Entry entry(comm);
  OMNES_RETURN_IF_ERROR(checkParent(comm, entry));
  if (newcomm == nullptr) return nullPointer("newcomm");
  if (color < 0 && color != OMNES_SPLIT_NOCOLOR)
    return Status(Code::kInvalidArgument,
                  "color is " + std::to_string(color) +
                      "; valid: 0 and above, or OMNES_SPLIT_NOCOLOR (-1) for no communicator");
  OMNES_ASSIGN_OR_RETURN(Origin origin, originOf(comm, config));
  // There is no handle on which a rank without a colour could poll.
  const bool blocking = origin.settings.blocking || color == OMNES_SPLIT_NOCOLOR;
  JoinPlan plan{-1, 0, [origin = std::move(origin), color, key](const AbortSignal& abort) {
                  return omnes::core::split(origin, color, key, abort);
                }};
  return omnes::api::join(std::move(plan), blocking, newcomm);
}

Result<std::vector<uint32_t>> readExcluded(omnesComm_t comm, const int* list, int count,
                                           bool mayBeEmpty) {
  if (count < (mayBeEmpty ? 0 : 1))
    return Status(Code::kInvalidArgument,
                  "excludeCount is " + std::to_string(count) + "; it must be at least " +
                      (mayBeEmpty ? "0" : "1, unless flags is OMNES_SHRINK_FAILED"));
  if (list == nullptr && count > 0) return nullPointer("excludeList");
  std::vector<uint32_t> excluded;
  for (int i = 0; i < count; ++i) {
    if (list[i] < 0 || list[i] >= comm->nranks)
      return Status(Code::kInvalidArgument, "excludeList has rank " + std::to_string(list[i]) +
                                                "; valid: 0.." + std::to_string(comm->nranks - 1));
    if (list[i] == comm->rank)
      return Status(Code::kInvalidArgument,
                    "excludeList has the calling rank, " + std::to_string(comm->rank) +
                        ": ranks that are left out do not call omnesCommShrink");
    excluded.push_back(static_cast<uint32_t>(list[i]));
  }
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  return excluded;
}

Status shrink(omnesComm_t comm, const int* excludeList, int excludeCount, omnesComm_t* newcomm,
              const omnesConfig_t* config, int flags) {
  const Entry entry(comm);
  OMNES_RETURN_IF_ERROR(checkParent(comm, entry));
  if (newcomm == nullptr) return nullPointer("newcomm");
  if (flags < OMNES_SHRINK_DEFAULT || flags > OMNES_SHRINK_FAILED)
    return Status(Code::kInvalidArgument,
                  "flags is " + std::to_string(flags) +
                      "; valid: OMNES_SHRINK_DEFAULT (0), OMNES_SHRINK_ABORT (1), "
                      "OMNES_SHRINK_FAILED (2)");
  ShrinkWish wish;
  wish.withoutDead = flags == OMNES_SHRINK_FAILED;
  OMNES_ASSIGN_OR_RETURN(wish.excluded,
                         readExcluded(comm, excludeList, excludeCount, wish.withoutDead));
  OMNES_ASSIGN_OR_RETURN(Origin origin, originOf(comm, config));
  const bool blocking = origin.settings.blocking;
  // Ranks that have noticed nothing come out of their calls, and come.
  if (flags != OMNES_SHRINK_DEFAULT)
    comm->communicator->revoke("ended the communicator to shrink it (omnesCommShrink)");
  JoinPlan plan{-1, 0, [origin = std::move(origin), wish](const AbortSignal& abort) {
                  return omnes::core::shrink(origin, wish, abort);
                }};
  return omnes::api::join(std::move(plan), blocking, newcomm);
}

std::string bytesOfId(const omnesUniqueId& id) { return {id.internal, sizeof id.internal}; }

Status growOld(omnesComm_t comm, int nranks, const omnesUniqueId* id, int rank,
               omnesComm_t* newcomm, const omnesConfig_t* config) {
  const Entry entry(comm);
  OMNES_RETURN_IF_ERROR(checkParent(comm, entry));
  if (newcomm == nullptr) return nullPointer("newcomm");
  if (rank != -1)
    return Status(Code::kInvalidArgument,
                  "rank is " + std::to_string(rank) +
                      "; ranks of comm keep their numbers and pass -1, new ones pass comm NULL");
  if (nranks <= comm->nranks)
    return Status(Code::kInvalidArgument, "nranks is " + std::to_string(nranks) +
                                              "; it must be more than the " +
                                              std::to_string(comm->nranks) + " of comm");
  std::string bytes;
  if (id != nullptr) {
    bytes = bytesOfId(*id);
    uint8_t copy[omnes::core::bootstrap::kUniqueIdBytes];
    std::memcpy(copy, id->internal, sizeof copy);
    OMNES_RETURN_IF_ERROR(omnes::core::bootstrap::MeetingPoint::fromUniqueId(copy).status());
  }
  OMNES_ASSIGN_OR_RETURN(Origin origin, originOf(comm, config));
  const bool blocking = origin.settings.blocking;
  JoinPlan plan{comm->rank, nranks,
                [origin = std::move(origin), nranks, bytes](const AbortSignal& abort) {
                  return omnes::core::grow(origin, nranks, bytes, abort);
                }};
  return omnes::api::join(std::move(plan), blocking, newcomm);
}

Status grow(omnesComm_t comm, int nranks, const omnesUniqueId* id, int rank, omnesComm_t* newcomm,
            const omnesConfig_t* config) {
  if (comm != nullptr) return growOld(comm, nranks, id, rank, newcomm, config);
  if (id == nullptr)
    return Status(Code::kInvalidArgument, "uniqueId is NULL: new ranks (comm NULL) need it");
  // As any other rank that has an id. Its number is above those that comm has elsewhere; two ranks
  // that claim one number are found when they meet.
  return omnes::api::joinWithId(newcomm, nranks, *id, rank, config);
}

Status revoke(omnesComm_t comm, int flags) {
  if (flags != 0)
    return Status(Code::kInvalidArgument, "flags is " + std::to_string(flags) + "; it must be 0");
  Status result;
  const Status known = query(comm, [&] {
    if (comm->communicator == nullptr)
      result = omnes::api::whyNotMade(comm);
    else if (std::exchange(comm->isRevoked, true))
      result = Status(Code::kInvalidArgument, "comm was revoked before");
    else
      comm->communicator->revoke("revoked the communicator (omnesCommRevoke)");
  });
  return known.isOk() ? result : known;
}

Status failedRanks(omnesComm_t comm, int* ranks, int* n) {
  if (comm != nullptr && n == nullptr) return nullPointer("n");
  if (n != nullptr && ranks != nullptr && *n < 0)
    return Status(Code::kInvalidArgument,
                  "*n is " + std::to_string(*n) + "; it must say how many numbers fit into ranks");
  return query(comm, [&] {
    int count = 0;
    const int room = ranks == nullptr ? 0 : *n;
    const int nranks = comm->communicator == nullptr ? 0 : comm->communicator->nranks();
    for (int rank = 0; rank < nranks; ++rank) {
      if (!comm->communicator->hasFailed(rank)) continue;
      if (count < room) ranks[count] = rank;
      ++count;
    }
    *n = count;
  });
}

}  // namespace

omnesResult_t omnesCommSplit(omnesComm_t comm, int color, int key, omnesComm_t* newcomm,
                             const omnesConfig_t* config) {
  return guardInit([&] { return split(comm, color, key, newcomm, config); });
}

omnesResult_t omnesCommShrink(omnesComm_t comm, const int* excludeList, int excludeCount,
                              omnesComm_t* newcomm, const omnesConfig_t* config, int flags) {
  return guardInit([&] { return shrink(comm, excludeList, excludeCount, newcomm, config, flags); });
}

omnesResult_t omnesCommGetUniqueId(omnesComm_t comm, omnesUniqueId* uniqueId) {
  return guard([&]() -> Status {
    if (comm != nullptr && uniqueId == nullptr) return nullPointer("uniqueId");
    OMNES_RETURN_IF_ERROR(query(comm, [] {}));
    return omnes::api::makeId(uniqueId);
  });
}

omnesResult_t omnesCommGrow(omnesComm_t comm, int nranks, const omnesUniqueId* uniqueId, int rank,
                            omnesComm_t* newcomm, const omnesConfig_t* config) {
  return guardInit([&] { return grow(comm, nranks, uniqueId, rank, newcomm, config); });
}

omnesResult_t omnesCommRevoke(omnesComm_t comm, int flags) {
  return guard([&] { return comm == nullptr ? Status::ok() : revoke(comm, flags); });
}

omnesResult_t omnesCommGetFailedRanks(omnesComm_t comm, int* ranks, int* n) {
  return guard([&] { return failedRanks(comm, ranks, n); });
}
