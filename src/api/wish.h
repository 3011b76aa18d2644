// What the caller of a call that makes a communicator has asked for, from its config and the
// environment, and how it is then made.
#pragma once

#include "api/joining.h"
#include "base/config.h"
#include "core/comm/settings.h"
#include "omnes/omnes.h"

namespace omnes::api {

struct Wish {
  core::CommSettings settings;
};

// Reads the environment anew for each communicator, and says once per process what is odd about it.
base::Result<base::Config> readEnvironment();
// config may be null. kInvalidArgument, kInvalidUsage name the field or variable.
base::Result<Wish> readWish(const base::Config& environment, const omnesConfig_t* config);

// Joins now, at the end of the group, or in the background.
base::Status join(JoinPlan plan, bool blocking, omnesComm_t* comm);

// What omnesCommInitRankConfig and omnesGetUniqueId do.
base::Status joinWithId(omnesComm_t* comm, int nranks, const omnesUniqueId& id, int rank,
                        const omnesConfig_t* config);
// kInvalidArgument.
base::Status checkRank(int nranks, int rank);
base::Status makeId(omnesUniqueId* uniqueId);

}  // namespace omnes::api
