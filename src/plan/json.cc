#include "plan/json.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace omnes::plan {
namespace {

using base::Code;
using base::Status;
using Json = nlohmann::ordered_json;

constexpr size_t kMaxText = size_t{32} << 20;
constexpr int kMaxDepth = 12;
constexpr size_t kMaxPlans = size_t{1} << 16;
constexpr const char* kFormat = "omnes-plans";

// Names of the values of each enum, in order.
constexpr std::string_view kMarks[] = {"input", "partial"};
constexpr std::string_view kSpaces[] = {"input", "output", "scratch"};
constexpr std::string_view kOps[] = {"none", "reduce"};
constexpr std::string_view kCuts[] = {"inside-slice", "outer"};
constexpr std::string_view kKinds[] = {"move", "signal", "wait", "loop", "end"};
constexpr std::string_view kCollectives[] = {"AllReduce", "ReduceScatter", "AllGather",
                                             "Barrier",   "Reduce",        "Broadcast",
                                             "AlltoAll",  "Gather",        "Scatter"};

template <typename Enum>
std::string nameIn(std::span<const std::string_view> names, Enum value) {
  const auto index = static_cast<size_t>(value);
  return index < names.size() ? std::string(names[index]) : "?";
}

// ---- Writing ----

Json jsonOf(const Ref& ref) {
  Json json;
  if (ref.kind == Ref::Kind::kSlice) {
    json["space"] = nameIn(kSpaces, ref.space);
  } else {
    json["stream"] = ref.stream;
  }
  json["start"] = ref.run.start.base;
  if (ref.run.start.step != 0) json["step"] = ref.run.start.step;
  if (ref.run.stride != 1) json["stride"] = ref.run.stride;
  if (ref.run.count != 1) json["count"] = ref.run.count;
  if (ref.run.group != 0) json["group"] = ref.run.group;
  if (ref.run.jump != 0) json["jump"] = ref.run.jump;
  if (ref.mark != Mark::kInput) json["mark"] = nameIn(kMarks, ref.mark);
  return json;
}

Json jsonOf(const std::vector<Ref>& refs) {
  Json json = Json::array();
  for (const Ref& ref : refs) json.push_back(jsonOf(ref));
  return json;
}

Json jsonOf(const Step& step) {
  Json json;
  json["kind"] = nameIn(kKinds, step.kind);
  if (step.kind == Step::Kind::kMove) json["op"] = nameIn(kOps, step.op);
  if (step.delay != 0) json["delay"] = step.delay;
  if (step.kind == Step::Kind::kLoop) json["iterations"] = step.iterations;
  const bool isMove = step.kind == Step::Kind::kMove;
  if (isMove || step.kind == Step::Kind::kWait) json["sources"] = jsonOf(step.sources);
  if (isMove || step.kind == Step::Kind::kSignal) json["sinks"] = jsonOf(step.sinks);
  return json;
}

Json jsonOf(const Plan& plan) {
  Json json;
  json["collective"] = nameIn(kCollectives, plan.collective);
  json["algorithm"] = plan.algorithm;
  json["rank"] = plan.rank;
  json["nranks"] = plan.nranks;
  json["root"] = plan.root;
  json["blocks"] = plan.blocks;
  json["cut"] = nameIn(kCuts, plan.cut);
  json["scratchBlocks"] = plan.scratchBlocks;
  json["scratchCopies"] = plan.scratchCopies;
  json["minCredits"] = plan.minCredits;
  json["maxInputChunkBlocks"] = plan.maxInputChunkBlocks;
  json["maxPartialChunkBlocks"] = plan.maxPartialChunkBlocks;
  json["lanes"] = Json::array();
  for (const Lane& lane : plan.lanes) {
    Json steps = Json::array();
    for (const Step& step : lane.steps) steps.push_back(jsonOf(step));
    json["lanes"].push_back(std::move(steps));
  }
  return json;
}

// ---- Reading ----

Status bad(const std::string& path, const std::string& text) {
  return Status(Code::kInvalidArgument, "plan JSON: " + path + ": " + text);
}

// Refuses nesting and repeated keys while the text is parsed, before anything large is built from
// it.
class Guard {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kMaxDepth) isTooDeep_ = true;
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end && !keys_.empty()) keys_.pop_back();
    if (event == Event::key && !keys_.empty()) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second && repeated_.empty()) repeated_ = key.substr(0, 64);
    }
    return !isTooDeep_;  // false drops the value, so that nothing deep is kept
  }
  bool isTooDeep() const { return isTooDeep_; }
  const std::string& repeated() const { return repeated_; }

 private:
  std::vector<std::set<std::string>> keys_;
  std::string repeated_;
  bool isTooDeep_ = false;
};

// One JSON object while its members are taken out; whatever is left in the end is unknown.
class Object {
 public:
  Object(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  Status check() const {
    return json_.is_object() ? Status::ok() : bad(path_, "expected an object");
  }
  bool has(const char* key) const { return json_.contains(key); }
  std::string pathOf(const char* key) const { return path_ + "." + key; }
  const std::string& path() const { return path_; }

  Status member(const char* key, const Json** member) {
    const auto found = json_.find(key);
    if (found == json_.end()) return bad(path_, "\"" + std::string(key) + "\" is missing");
    ++taken_;
    known_.push_back(key);
    *member = &*found;
    return Status::ok();
  }

  template <typename Integer>
  Status integer(const char* key, int64_t least, int64_t most, Integer* value) {
    const Json* json = nullptr;
    OMNES_RETURN_IF_ERROR(member(key, &json));
    const std::string range =
        "expected an integer from " + std::to_string(least) + " to " + std::to_string(most);
    if (!json->is_number_integer()) return bad(pathOf(key), range);
    if (json->is_number_unsigned() && json->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      return bad(pathOf(key), range);
    const int64_t found = json->get<int64_t>();
    if (found < least || found > most)
      return bad(pathOf(key), range + ", found " + std::to_string(found));
    *value = static_cast<Integer>(found);
    return Status::ok();
  }
  template <typename Integer>
  Status optionalInteger(const char* key, int64_t least, int64_t most, Integer* value) {
    return has(key) ? integer(key, least, most, value) : Status::ok();
  }

  Status string(const char* key, std::string* value) {
    const Json* json = nullptr;
    OMNES_RETURN_IF_ERROR(member(key, &json));
    if (!json->is_string()) return bad(pathOf(key), "expected a string");
    *value = json->get_ref<const std::string&>();
    return Status::ok();
  }

  template <typename Enum>
  Status choice(const char* key, std::span<const std::string_view> names, Enum* value) {
    std::string name;
    OMNES_RETURN_IF_ERROR(string(key, &name));
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      std::string list;
      for (std::string_view each : names) list.append(list.empty() ? "" : ", ").append(each);
      return bad(pathOf(key), "\"" + name.substr(0, 64) + "\" is none of " + list);
    }
    *value = static_cast<Enum>(found - names.begin());
    return Status::ok();
  }

  Status finish() const {
    if (taken_ == json_.size()) return Status::ok();
    for (const auto& [key, value] : json_.items())
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        return bad(path_, "unknown \"" + key.substr(0, 64) + "\"");
    return Status::ok();
  }

 private:
  const Json& json_;
  std::string path_;
  std::vector<std::string> known_;
  size_t taken_ = 0;
};

std::string at(const std::string& path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

constexpr int64_t kMin = INT32_MIN;
constexpr int64_t kMax = INT32_MAX;

Status read(const Json& json, const std::string& path, Ref* ref) {
  Object object(json, path);
  OMNES_RETURN_IF_ERROR(object.check());
  if (object.has("space") == object.has("stream"))
    return bad(path, "expected either \"space\" or \"stream\"");
  if (object.has("space")) {
    ref->kind = Ref::Kind::kSlice;
    OMNES_RETURN_IF_ERROR(object.choice("space", kSpaces, &ref->space));
  } else {
    ref->kind = Ref::Kind::kLink;
    OMNES_RETURN_IF_ERROR(
        object.integer("stream", 0, kStreamsPerLane * kMaxLanes - 1, &ref->stream));
  }
  OMNES_RETURN_IF_ERROR(object.integer("start", kMin, kMax, &ref->run.start.base));
  OMNES_RETURN_IF_ERROR(object.optionalInteger("step", kMin, kMax, &ref->run.start.step));
  OMNES_RETURN_IF_ERROR(object.optionalInteger("stride", kMin, kMax, &ref->run.stride));
  OMNES_RETURN_IF_ERROR(object.optionalInteger("count", 1, kMax, &ref->run.count));
  OMNES_RETURN_IF_ERROR(object.optionalInteger("group", 0, kMax, &ref->run.group));
  OMNES_RETURN_IF_ERROR(object.optionalInteger("jump", kMin, kMax, &ref->run.jump));
  if (object.has("mark")) OMNES_RETURN_IF_ERROR(object.choice("mark", kMarks, &ref->mark));
  return object.finish();
}

Status readRefs(Object* step, const char* key, std::vector<Ref>* refs) {
  const Json* json = nullptr;
  OMNES_RETURN_IF_ERROR(step->member(key, &json));
  if (!json->is_array()) return bad(step->pathOf(key), "expected an array");
  for (size_t i = 0; i < json->size(); ++i)
    OMNES_RETURN_IF_ERROR(read((*json)[i], at(step->pathOf(key), i), &refs->emplace_back()));
  return Status::ok();
}

Status read(const Json& json, const std::string& path, Step* step) {
  Object object(json, path);
  OMNES_RETURN_IF_ERROR(object.check());
  OMNES_RETURN_IF_ERROR(object.choice("kind", kKinds, &step->kind));
  OMNES_RETURN_IF_ERROR(object.optionalInteger("delay", 0, UINT16_MAX, &step->delay));
  const bool isMove = step->kind == Step::Kind::kMove;
  if (isMove) OMNES_RETURN_IF_ERROR(object.choice("op", kOps, &step->op));
  if (step->kind == Step::Kind::kLoop)
    OMNES_RETURN_IF_ERROR(object.integer("iterations", 0, kMax, &step->iterations));
  if (isMove || step->kind == Step::Kind::kWait)
    OMNES_RETURN_IF_ERROR(readRefs(&object, "sources", &step->sources));
  if (isMove || step->kind == Step::Kind::kSignal)
    OMNES_RETURN_IF_ERROR(readRefs(&object, "sinks", &step->sinks));
  return object.finish();
}

Status readLanes(Object* plan, std::vector<Lane>* lanes) {
  const Json* json = nullptr;
  OMNES_RETURN_IF_ERROR(plan->member("lanes", &json));
  const std::string path = plan->pathOf("lanes");
  if (!json->is_array() || json->size() > static_cast<size_t>(kMaxLanes))
    return bad(path, "expected an array of at most 8 lanes");
  lanes->resize(json->size());
  for (size_t lane = 0; lane < json->size(); ++lane) {
    const Json& steps = (*json)[lane];
    if (!steps.is_array()) return bad(at(path, lane), "expected an array of steps");
    for (size_t i = 0; i < steps.size(); ++i)
      OMNES_RETURN_IF_ERROR(
          read(steps[i], at(at(path, lane), i), &(*lanes)[lane].steps.emplace_back()));
  }
  return Status::ok();
}

Status read(const Json& json, const std::string& path, Plan* plan) {
  Object object(json, path);
  OMNES_RETURN_IF_ERROR(object.check());
  OMNES_RETURN_IF_ERROR(object.choice("collective", kCollectives, &plan->collective));
  OMNES_RETURN_IF_ERROR(object.string("algorithm", &plan->algorithm));
  OMNES_RETURN_IF_ERROR(object.integer("rank", 0, kMax, &plan->rank));
  OMNES_RETURN_IF_ERROR(object.integer("nranks", 1, kMax, &plan->nranks));
  OMNES_RETURN_IF_ERROR(object.integer("root", -1, kMax, &plan->root));
  OMNES_RETURN_IF_ERROR(object.integer("blocks", 1, kMax, &plan->blocks));
  OMNES_RETURN_IF_ERROR(object.choice("cut", kCuts, &plan->cut));
  OMNES_RETURN_IF_ERROR(object.integer("scratchBlocks", 0, kMax, &plan->scratchBlocks));
  OMNES_RETURN_IF_ERROR(object.integer("scratchCopies", 1, kMax, &plan->scratchCopies));
  OMNES_RETURN_IF_ERROR(object.integer("minCredits", 0, kMax, &plan->minCredits));
  OMNES_RETURN_IF_ERROR(object.integer("maxInputChunkBlocks", 0, kMax, &plan->maxInputChunkBlocks));
  OMNES_RETURN_IF_ERROR(
      object.integer("maxPartialChunkBlocks", 0, kMax, &plan->maxPartialChunkBlocks));
  OMNES_RETURN_IF_ERROR(readLanes(&object, &plan->lanes));
  return object.finish();
}

}  // namespace

std::string toJson(std::span<const Plan> plans) {
  Json json;
  json["format"] = kFormat;
  json["version"] = 1;
  json["plans"] = Json::array();
  for (const Plan& plan : plans) json["plans"].push_back(jsonOf(plan));
  // A name that is not UTF-8 must not throw.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

base::Result<std::vector<Plan>> fromJson(std::string_view text) {
  if (text.size() > kMaxText) return bad("text", "longer than 32 MiB");
  Guard guard;
  const auto callback = [&guard](int depth, Json::parse_event_t event, Json& parsed) {
    return guard(depth, event, parsed);
  };
  const Json json = Json::parse(text.begin(), text.end(), callback, false);
  if (json.is_discarded() || guard.isTooDeep())
    return bad("text", guard.isTooDeep() ? "nested too deep" : "not JSON");
  if (!guard.repeated().empty())
    return bad("text", "\"" + guard.repeated() + "\" twice in one object");
  Object object(json, "text");
  OMNES_RETURN_IF_ERROR(object.check());
  std::string format;
  int32_t version = 0;
  const Json* list = nullptr;
  OMNES_RETURN_IF_ERROR(object.string("format", &format));
  if (format != kFormat) return bad("format", "expected \"omnes-plans\"");
  OMNES_RETURN_IF_ERROR(object.integer("version", 1, 1, &version));
  OMNES_RETURN_IF_ERROR(object.member("plans", &list));
  OMNES_RETURN_IF_ERROR(object.finish());
  if (!list->is_array() || list->empty() || list->size() > kMaxPlans)
    return bad("plans", "expected an array of 1 to 65536 plans");
  std::vector<Plan> plans(list->size());
  for (size_t i = 0; i < plans.size(); ++i)
    OMNES_RETURN_IF_ERROR(read((*list)[i], at("plans", i), &plans[i]));
  return plans;
}

}  // namespace omnes::plan
