#include "plan/plan.h"

namespace omnes::plan {

int32_t blockCount(const Plan& plan, Space space) {
  if (space == Space::kScratch) return plan.scratchBlocks;
  const bool input = space == Space::kInput;
  switch (plan.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast: return plan.blocks;
    case Collective::kReduceScatter: return input ? plan.blocks : 1;
    case Collective::kAllGather: return input ? 1 : plan.blocks;
    case Collective::kBarrier: return 0;
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter: return 0;
  }
  return 0;
}

int32_t extentOf(const Plan& plan, Space space, int32_t block) {
  if (space == Space::kScratch) return block % plan.blocks;
  const bool ownOnly = (plan.collective == Collective::kReduceScatter && space == Space::kOutput) ||
                       (plan.collective == Collective::kAllGather && space == Space::kInput);
  return ownOnly ? plan.rank : block;
}

int32_t inPlaceAlias(const Plan& plan, int32_t outputBlock) {
  switch (plan.collective) {
    case Collective::kReduceScatter: return plan.rank;
    case Collective::kAllGather: return outputBlock == plan.rank ? 0 : -1;
    default: return outputBlock;
  }
}

const char* nameOf(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce: return "AllReduce";
    case Collective::kReduceScatter: return "ReduceScatter";
    case Collective::kAllGather: return "AllGather";
    case Collective::kBarrier: return "Barrier";
    case Collective::kReduce: return "Reduce";
    case Collective::kBroadcast: return "Broadcast";
    case Collective::kAllToAll: return "AlltoAll";
    case Collective::kGather: return "Gather";
    case Collective::kScatter: return "Scatter";
  }
  return "?";
}

}  // namespace omnes::plan
