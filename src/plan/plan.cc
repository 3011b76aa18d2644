#include "plan/plan.h"

namespace omnes::plan {

int32_t blockCount(const Plan& plan, Space space) {
  if (space == Space::kScratch) return plan.scratchBlocks;
  const bool input = space == Space::kInput;
  const bool isRoot = plan.rank == plan.root;
  switch (plan.collective) {
    case Collective::kAllReduce:
    case Collective::kAllToAll:
    case Collective::kAllToAllV: return plan.blocks;
    case Collective::kReduce: return input || isRoot ? plan.blocks : 0;
    case Collective::kBroadcast: return !input || isRoot ? plan.blocks : 0;
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV: return input ? plan.blocks : 1;
    case Collective::kAllGather:
    case Collective::kAllGatherV: return input ? 1 : plan.blocks;
    case Collective::kGather:
    case Collective::kGatherV: return input ? 1 : isRoot ? plan.blocks : 0;
    case Collective::kScatter:
    case Collective::kScatterV: return !input ? 1 : isRoot ? plan.blocks : 0;
    case Collective::kBarrier:
    case Collective::kSendReceive: return 0;
  }
  return 0;
}

int32_t extentOf(const Plan& plan, Space space, int32_t block) {
  if (space == Space::kScratch) return block % plan.blocks;
  const bool input = space == Space::kInput;
  switch (plan.collective) {
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV:
    case Collective::kScatter:
    case Collective::kScatterV: return input ? block : plan.rank;
    case Collective::kAllGather:
    case Collective::kAllGatherV:
    case Collective::kGather:
    case Collective::kGatherV: return input ? plan.rank : block;
    case Collective::kAllToAll:
    case Collective::kAllToAllV: {
      const int32_t distance = input ? block - plan.rank : plan.rank - block;
      return distance < 0 ? distance + plan.nranks : distance;
    }
    default: return block;
  }
}

int32_t inPlaceAlias(const Plan& plan, int32_t outputBlock) {
  switch (plan.collective) {
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV: return plan.rank;
    case Collective::kScatter:
    case Collective::kScatterV: return plan.rank == plan.root ? plan.rank : -1;
    case Collective::kAllGather:
    case Collective::kAllGatherV:
    case Collective::kGather:
    case Collective::kGatherV: return outputBlock == plan.rank ? 0 : -1;
    case Collective::kBroadcast: return plan.rank == plan.root ? outputBlock : -1;
    case Collective::kAllToAll:
    case Collective::kAllToAllV: return -1;
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
    case Collective::kAllGatherV: return "AllGatherV";
    case Collective::kReduceScatterV: return "ReduceScatterV";
    case Collective::kAllToAllV: return "AlltoAllV";
    case Collective::kGatherV: return "GatherV";
    case Collective::kScatterV: return "ScatterV";
    case Collective::kSendReceive: return "SendRecv";
  }
  return "?";
}

bool hasRoot(Collective collective) {
  switch (collective) {
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kGatherV:
    case Collective::kScatterV: return true;
    default: return false;
  }
}

bool isReduction(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV: return true;
    default: return false;
  }
}

}  // namespace omnes::plan
