#include "plan/msccl_file.h"

#include <tinyxml2.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace omnes::plan::msccl {
namespace {

using base::Code;
using base::Status;
using tinyxml2::XMLElement;

constexpr size_t kMaxText = size_t{32} << 20;
constexpr int64_t kMaxRanks = 256;
constexpr int64_t kMaxChunks = 4096;    // of one buffer
constexpr int64_t kMaxBlocks = 4096;    // thread blocks of all ranks
constexpr int64_t kMaxSteps = 1 << 17;  // of all ranks, a step of several chunks counting as many
constexpr int64_t kMax = INT32_MAX;

// Attributes of one element; whatever is missing or out of range is named (tinyxml2
// refuses what is there twice).
class Attributes {
 public:
  Attributes(const XMLElement& element, std::string place)
      : element_(element), place_(std::move(place)) {}

  Status fail(const std::string& text) const { return bad(element_.GetLineNum(), place_, text); }

  Status text(const char* name, std::string* value) const {
    const char* found = element_.Attribute(name);
    if (found == nullptr) return fail("attribute " + std::string(name) + " is missing");
    *value = found;
    return Status::ok();
  }
  Status integer(const char* name, int64_t least, int64_t most, int32_t* value) const {
    std::string found;
    OMNES_RETURN_IF_ERROR(text(name, &found));
    const auto number = base::parseInt(found);
    if (!number.isOk() || number.value() < least || number.value() > most)
      return fail("attribute " + std::string(name) + "=\"" + found.substr(0, 64) +
                  "\": expected an integer from " + std::to_string(least) + " to " +
                  std::to_string(most));
    *value = static_cast<int32_t>(number.value());
    return Status::ok();
  }
  bool has(const char* name) const { return element_.Attribute(name) != nullptr; }

 private:
  const XMLElement& element_;
  std::string place_;
};

// Calls read(child) for each child, all of which must be <name>.
template <typename Read>
Status forEach(const XMLElement& parent, const char* name, const std::string& place, Read read) {
  for (const auto* child = parent.FirstChildElement(); child != nullptr;
       child = child->NextSiblingElement()) {
    if (std::strcmp(child->Name(), name) != 0)
      return bad(
          child->GetLineNum(), place,
          "element <" + std::string(child->Name()).substr(0, 64) + ">, expected <" + name + ">");
    OMNES_RETURN_IF_ERROR(read(*child));
  }
  return Status::ok();
}

class Parser {
 public:
  base::Result<Algorithm> parse(const XMLElement& root);

 private:
  Status readHead(const XMLElement& root);
  Status readRank(const XMLElement& element);
  Status readBlock(const XMLElement& element, const std::string& place, XmlRank* rank);
  Status readStep(const XMLElement& element, size_t rank, ThreadBlock* block);
  Status readSpot(const Attributes& attributes, const char* buffer, const char* offset,
                  const XmlRank& rank, int32_t count, Spot* spot) const;
  Status checkReferences();

  Algorithm algorithm_;
  std::vector<uint8_t> seen_;
  int64_t blocks_ = 0;
  int64_t steps_ = 0;
};

Status Parser::readHead(const XMLElement& root) {
  const Attributes attributes(root, "algo");
  if (std::strcmp(root.Name(), "algo") != 0) return attributes.fail("the root is not <algo>");
  OMNES_RETURN_IF_ERROR(attributes.text("name", &algorithm_.name));
  for (const char c : algorithm_.name)
    if (c < 0x20 || c > 0x7e || algorithm_.name.size() > 128)
      return attributes.fail("attribute name: expected at most 128 printable ASCII characters");
  std::string collective;
  OMNES_RETURN_IF_ERROR(attributes.text("coll", &collective));
  if (collective == "allreduce") {
    algorithm_.collective = Collective::kAllReduce;
  } else if (collective == "allgather") {
    algorithm_.collective = Collective::kAllGather;
  } else if (collective == "reduce_scatter" || collective == "reducescatter") {
    algorithm_.collective = Collective::kReduceScatter;
  } else if (collective == "alltoall") {
    algorithm_.collective = Collective::kAllToAll;
  } else {
    return attributes.fail("coll=\"" + collective.substr(0, 64) +
                           "\" is none of allreduce, allgather, reduce_scatter, alltoall");
  }
  int32_t ranks = 0, inPlace = 0;
  OMNES_RETURN_IF_ERROR(attributes.integer("ngpus", 1, kMaxRanks, &ranks));
  if (attributes.has("inplace"))
    OMNES_RETURN_IF_ERROR(attributes.integer("inplace", 0, 1, &inPlace));
  algorithm_.inPlace = inPlace == 1;
  if (algorithm_.inPlace && algorithm_.collective == Collective::kAllToAll)
    return attributes.fail("an alltoall in place, which there is not");
  algorithm_.ranks.resize(static_cast<size_t>(ranks));
  seen_.resize(static_cast<size_t>(ranks));
  return Status::ok();
}

Status Parser::readRank(const XMLElement& element) {
  int32_t id = 0;
  const int64_t ranks = static_cast<int64_t>(algorithm_.ranks.size());
  const Attributes head(element, "gpu");
  OMNES_RETURN_IF_ERROR(head.integer("id", 0, ranks - 1, &id));
  const std::string place = "gpu " + std::to_string(id);
  const Attributes attributes(element, place);
  if (seen_[static_cast<size_t>(id)]++ != 0) return attributes.fail("is there twice");
  XmlRank& rank = algorithm_.ranks[static_cast<size_t>(id)];
  OMNES_RETURN_IF_ERROR(attributes.integer("i_chunks", 0, kMaxChunks, &rank.inputs));
  OMNES_RETURN_IF_ERROR(attributes.integer("o_chunks", 0, kMaxChunks, &rank.outputs));
  OMNES_RETURN_IF_ERROR(attributes.integer("s_chunks", 0, kMaxChunks, &rank.scratch));
  return forEach(element, "tb", place,
                 [&](const XMLElement& child) { return readBlock(child, place, &rank); });
}

Status Parser::readBlock(const XMLElement& element, const std::string& place, XmlRank* rank) {
  const int64_t ranks = static_cast<int64_t>(algorithm_.ranks.size());
  ThreadBlock block;
  const Attributes head(element, place + ", tb");
  if (++blocks_ > kMaxBlocks) return head.fail("more than 4096 thread blocks in all");
  OMNES_RETURN_IF_ERROR(head.integer("id", 0, kMax, &block.id));
  const Attributes attributes(element, place + ", tb " + std::to_string(block.id));
  for (const ThreadBlock& other : rank->blocks)
    if (other.id == block.id) return attributes.fail("is there twice");
  OMNES_RETURN_IF_ERROR(attributes.integer("send", -1, ranks - 1, &block.sendTo));
  OMNES_RETURN_IF_ERROR(attributes.integer("recv", -1, ranks - 1, &block.receiveFrom));
  // More channels than lanes have no streams of their own.
  OMNES_RETURN_IF_ERROR(attributes.integer("chan", 0, kMaxLanes - 1, &block.channel));
  const size_t index = static_cast<size_t>(rank - algorithm_.ranks.data());
  for (const ThreadBlock& other : rank->blocks) {
    if (other.channel != block.channel) continue;
    // Two writers of one FIFO would have no order.
    if (block.sendTo >= 0 && other.sendTo == block.sendTo)
      return attributes.fail("sends on the channel of tb " + std::to_string(other.id));
    if (block.receiveFrom >= 0 && other.receiveFrom == block.receiveFrom)
      return attributes.fail("receives on the channel of tb " + std::to_string(other.id));
  }
  const auto self = static_cast<int32_t>(index);
  if (block.sendTo == self || block.receiveFrom == self)
    return attributes.fail("sends to or receives from its own gpu");
  OMNES_RETURN_IF_ERROR(
      forEach(element, "step", place + ", tb " + std::to_string(block.id),
              [&](const XMLElement& child) { return readStep(child, index, &block); }));
  rank->blocks.push_back(std::move(block));
  return Status::ok();
}

Status Parser::readSpot(const Attributes& attributes, const char* buffer, const char* offset,
                        const XmlRank& rank, int32_t count, Spot* spot) const {
  std::string name;
  OMNES_RETURN_IF_ERROR(attributes.text(buffer, &name));
  if (name != "i" && name != "o" && name != "s")
    return attributes.fail("attribute " + std::string(buffer) + "=\"" + name.substr(0, 64) +
                           "\": expected i, o or s");
  spot->buffer = name[0];
  const int32_t chunks = name == "i" ? rank.inputs : name == "o" ? rank.outputs : rank.scratch;
  return attributes.integer(offset, 0, int64_t{chunks} - count, &spot->offset);
}

Status Parser::readStep(const XMLElement& element, size_t rank, ThreadBlock* block) {
  static constexpr const char* kNames[] = {"nop", "s",   "r",   "cpy", "re",
                                           "rrc", "rcs", "rrs", "rrcs"};
  const Attributes attributes(element, placeOf(rank, *block, block->steps.size()));
  int32_t number = 0;
  OMNES_RETURN_IF_ERROR(attributes.integer("s", 0, kMax, &number));
  if (number != static_cast<int32_t>(block->steps.size()))
    return attributes.fail("s=\"" + std::to_string(number) + "\", steps are numbered from 0");
  std::string type;
  OMNES_RETURN_IF_ERROR(attributes.text("type", &type));
  const auto* found = std::find(std::begin(kNames), std::end(kNames), type);
  if (found == std::end(kNames))
    return attributes.fail("type=\"" + type.substr(0, 64) +
                           "\" is none of nop, s, r, cpy, re, rrc, rcs, rrs, rrcs");
  XmlStep step;
  step.line = element.GetLineNum();
  step.action = static_cast<Action>(found - std::begin(kNames));
  const XmlRank& own = algorithm_.ranks[rank];
  if (step.action != Action::kNop)
    OMNES_RETURN_IF_ERROR(attributes.integer("cnt", 1, kMaxChunks, &step.count));
  if (reads(step.action))
    OMNES_RETURN_IF_ERROR(readSpot(attributes, "srcbuf", "srcoff", own, step.count, &step.source));
  if (writes(step.action))
    OMNES_RETURN_IF_ERROR(readSpot(attributes, "dstbuf", "dstoff", own, step.count, &step.sink));
  if (sends(step.action) && block->sendTo < 0) return attributes.fail("sends, but tb has send=-1");
  if (receives(step.action) && block->receiveFrom < 0)
    return attributes.fail("receives, but tb has recv=-1");
  OMNES_RETURN_IF_ERROR(attributes.integer("depid", -1, kMax, &step.dependsOnBlock));
  OMNES_RETURN_IF_ERROR(attributes.integer("deps", -1, kMax, &step.dependsOnStep));
  steps_ += step.count;
  if (steps_ > kMaxSteps) return attributes.fail("more than 131072 steps and chunks in all");
  block->steps.push_back(step);
  return Status::ok();
}

// Thread blocks by index instead of id, which needs all of a rank's.
Status Parser::checkReferences() {
  for (size_t rank = 0; rank < algorithm_.ranks.size(); ++rank) {
    auto& blocks = algorithm_.ranks[rank].blocks;
    for (ThreadBlock& block : blocks) {
      for (size_t i = 0; i < block.steps.size(); ++i) {
        XmlStep& step = block.steps[i];
        if (step.dependsOnBlock < 0) continue;
        const auto other = std::find_if(blocks.begin(), blocks.end(), [&](const ThreadBlock& each) {
          return each.id == step.dependsOnBlock;
        });
        if (other == blocks.end() || step.dependsOnStep < 0 ||
            static_cast<size_t>(step.dependsOnStep) >= other->steps.size())
          return bad(step.line, placeOf(rank, block, i),
                     "depends on tb " + std::to_string(step.dependsOnBlock) + " step " +
                         std::to_string(step.dependsOnStep) + ", which is not there");
        step.dependsOnBlock = static_cast<int32_t>(other - blocks.begin());
      }
    }
  }
  return Status::ok();
}

base::Result<Algorithm> Parser::parse(const XMLElement& root) {
  OMNES_RETURN_IF_ERROR(readHead(root));
  OMNES_RETURN_IF_ERROR(
      forEach(root, "gpu", "algo", [&](const XMLElement& child) { return readRank(child); }));
  for (size_t rank = 0; rank < seen_.size(); ++rank)
    if (seen_[rank] == 0)
      return bad(root.GetLineNum(), "algo", "gpu " + std::to_string(rank) + " is missing");
  OMNES_RETURN_IF_ERROR(checkReferences());
  return std::move(algorithm_);
}

}  // namespace

Status bad(int line, const std::string& place, const std::string& text) {
  return Status(Code::kInvalidArgument,
                "MSCCL XML: line " + std::to_string(line) + ", " + place + ": " + text);
}

std::string placeOf(size_t rank, const ThreadBlock& block, size_t step) {
  return "gpu " + std::to_string(rank) + ", tb " + std::to_string(block.id) + ", step " +
         std::to_string(step);
}

base::Result<Algorithm> parse(std::string_view text) {
  if (text.size() > kMaxText)
    return Status(Code::kInvalidArgument, "MSCCL XML: longer than 32 MiB");
  tinyxml2::XMLDocument document;
  if (document.Parse(text.data(), text.size()) != tinyxml2::XML_SUCCESS)
    return Status(Code::kInvalidArgument, "MSCCL XML: line " +
                                              std::to_string(document.ErrorLineNum()) +
                                              ": not XML (" + document.ErrorName() + ")");
  const XMLElement* root = document.RootElement();
  if (root == nullptr) return Status(Code::kInvalidArgument, "MSCCL XML: no element");
  if (root->NextSiblingElement() != nullptr)
    return bad(root->NextSiblingElement()->GetLineNum(), "algo", "a second root element");
  return Parser().parse(*root);
}

}  // namespace omnes::plan::msccl
