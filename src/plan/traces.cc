#include "plan/traces.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "plan/traffic.h"

namespace omnes::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLimit = size_t{1} << 20;

// What both forms are made of. Nodes of a rank are numbered from 1, in an order in which they can
// run.
struct Node {
  enum class Kind : uint8_t { kReceive, kStep, kSend };
  Kind kind = Kind::kStep;
  int32_t peer = 0;
  uint8_t stream = 0;
  uint64_t bytes = 0;
  std::string name;
  std::vector<size_t> requires_;
};

uint64_t bytesOf(const TrafficEvent& event, uint64_t bytes, int32_t blocks) {
  const auto count = static_cast<uint64_t>(blocks);
  uint64_t sum = 0;
  for (const int32_t extent : event.extents)
    sum += bytes / count + (static_cast<uint64_t>(extent) < bytes % count ? 1 : 0);
  return sum;
}

void append(const LaneTraffic& lane, const TrafficEvent& event, size_t number, uint64_t bytes,
            int32_t blocks, std::vector<Node>* nodes, size_t* before) {
  const std::string name = "lane " + std::to_string(number) + " step " +
                           std::to_string(event.step) + " iteration " +
                           std::to_string(event.iteration);
  Node step{Node::Kind::kStep, 0, 0, 0, name, {}};
  if (*before > 0) step.requires_.push_back(*before);
  for (const Transfer& each : event.receives) {
    nodes->push_back({Node::Kind::kReceive,
                      each.peer,
                      each.stream,
                      bytesOf(lane.events[each.event], bytes, blocks),
                      name,
                      {}});
    // Receives of one link take its chunks in the order of the program.
    if (*before > 0) nodes->back().requires_.push_back(*before);
    step.requires_.push_back(nodes->size());
  }
  nodes->push_back(std::move(step));
  *before = nodes->size();
  for (const Transfer& each : event.sends)
    nodes->push_back({Node::Kind::kSend,
                      each.peer,
                      each.stream,
                      bytesOf(event, bytes, blocks),
                      name,
                      {*before}});
}

base::Result<std::vector<std::vector<Node>>> nodesOf(std::span<const Plan> plans, uint64_t bytes) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<LaneTraffic> lanes, trafficOf(plans, kLimit));
  std::vector<std::vector<Node>> ranks(plans.size());
  for (size_t number = 0; number < lanes.size(); ++number) {
    std::vector<size_t> before(plans.size());
    for (const TrafficEvent& event : lanes[number].events) {
      const auto rank = static_cast<size_t>(event.rank);
      append(lanes[number], event, number, bytes, plans[0].blocks, &ranks[rank], &before[rank]);
    }
  }
  return ranks;
}

}  // namespace

base::Result<std::string> toGoal(std::span<const Plan> plans, uint64_t bytes) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<std::vector<Node>> ranks, nodesOf(plans, bytes));
  std::string text = "num_ranks " + std::to_string(ranks.size()) + "\n";
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    text += "\nrank " + std::to_string(rank) + " {\n";
    for (size_t i = 0; i < ranks[rank].size(); ++i) {
      const Node& node = ranks[rank][i];
      const std::string label = "l" + std::to_string(i + 1);
      text += label + ": ";
      if (node.kind == Node::Kind::kStep) {
        text += "calc 0\n";
      } else {
        const bool isSend = node.kind == Node::Kind::kSend;
        text += std::string(isSend ? "send " : "recv ") +
                std::to_string(std::max<uint64_t>(node.bytes, 1)) + "b " +
                (isSend ? "to " : "from ") + std::to_string(node.peer) + " tag " +
                std::to_string(node.stream) + "\n";
      }
      for (const size_t other : node.requires_)
        text += label + " requires l" + std::to_string(other) + "\n";
    }
    text += "}\n";
  }
  return text;
}

base::Result<std::string> toChakra(std::span<const Plan> plans, uint64_t bytes) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<std::vector<Node>> ranks, nodesOf(plans, bytes));
  static constexpr const char* kTypes[] = {"COMM_RECV_NODE", "COMP_NODE", "COMM_SEND_NODE"};
  Json json;
  json["ranks"] = Json::array();
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    Json nodes = Json::array();
    for (size_t i = 0; i < ranks[rank].size(); ++i) {
      const Node& node = ranks[rank][i];
      const auto own = static_cast<int32_t>(rank);
      const bool isSend = node.kind == Node::Kind::kSend;
      Json each = {{"id", i + 1},
                   {"name", node.name},
                   {"type", kTypes[static_cast<size_t>(node.kind)]},
                   {"data_deps", node.requires_},
                   {"attr", Json::array()}};
      if (node.kind != Node::Kind::kStep) {
        each["attr"].push_back({{"name", "comm_src"}, {"int32_val", isSend ? own : node.peer}});
        each["attr"].push_back({{"name", "comm_dst"}, {"int32_val", isSend ? node.peer : own}});
        each["attr"].push_back({{"name", "comm_tag"}, {"int32_val", node.stream}});
        each["attr"].push_back({{"name", "comm_size"}, {"uint64_val", node.bytes}});
      }
      nodes.push_back(std::move(each));
    }
    json["ranks"].push_back({{"rank", rank}, {"nodes", std::move(nodes)}});
  }
  return json.dump(1) + "\n";
}

}  // namespace omnes::plan
