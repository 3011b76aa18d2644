#include "plan/drawing.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "plan/text.h"
#include "plan/traffic.h"

namespace omnes::plan {
namespace {

using base::Code;
using base::Status;

constexpr int kLeft = 90;     // of the first column
constexpr int kColumn = 170;  // between rounds
constexpr int kRow = 74;      // between ranks
constexpr int kTop = 96;      // of the first panel
constexpr int kPanelHead = 54;
constexpr int kBox = 13;  // half the height of a rank's box in a round
constexpr size_t kMostArrows = 4000;

std::string number(int value) { return std::to_string(value); }

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return safe;
}

std::string textAt(int x, int y, const char* style, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" class=\"" + style + "\">" +
         escaped(text) + "</text>\n";
}

// "0-2 5": extents in ascending order, neighbours as ranges.
std::string namesOf(std::vector<int32_t> extents) {
  std::sort(extents.begin(), extents.end());
  std::string text;
  for (size_t i = 0; i < extents.size();) {
    size_t end = i + 1;
    while (end < extents.size() && extents[end] == extents[end - 1] + 1) ++end;
    if (!text.empty()) text += " ";
    text += number(extents[i]);
    if (end - i > 1) text += (end - i == 2 ? " " : "-") + number(extents[end - 1]);
    i = end;
  }
  return text;
}

// What one rank does in one round.
struct Box {
  bool reduces = false;
  bool moves = false;
  std::string steps;  // a line each, for the tooltip
};

// One arrow; several chunks between the same two boxes share it.
struct Arrow {
  std::vector<int32_t> extents;
  bool isPartial = false;
};

class Panel {
 public:
  Panel(const LaneTraffic& lane, int32_t nranks, int top) : nranks_(nranks), top_(top) {
    for (const TrafficEvent& event : lane.events) add(lane, event);
    columns_ = lane.columns;
  }

  std::string draw(const std::string& head) const;
  int height() const { return kPanelHead + kRow * nranks_; }
  int width() const { return kLeft + kColumn * (columns_ - 1) + 60; }

 private:
  using Place = std::pair<int32_t, int32_t>;  // rank, column

  void add(const LaneTraffic& lane, const TrafficEvent& event);
  int xOf(const Place& place) const { return kLeft + kColumn * place.second; }
  int yOf(const Place& place) const { return top_ + kPanelHead + kRow * place.first; }
  std::string drawArrow(const Place& from, const Place& to, const Arrow& arrow) const;
  std::string drawBox(const Place& place, const Box& box) const;

  int32_t nranks_;
  int top_;
  int32_t columns_ = 1;
  std::map<Place, Box> boxes_;
  std::map<std::pair<Place, Place>, Arrow> arrows_;
};

void Panel::add(const LaneTraffic& lane, const TrafficEvent& event) {
  const Place own{event.rank, event.column};
  Box& box = boxes_[own];
  box.reduces |= event.what->kind == Step::Kind::kMove && event.what->op == Op::kReduce;
  box.moves |= event.what->kind == Step::Kind::kMove;
  box.steps += "step " + number(event.step) +
               (event.iteration > 0 ? " iteration " + number(event.iteration) : std::string()) +
               ": " + toText(*event.what) + "\n";
  for (const Transfer& received : event.receives) {
    const TrafficEvent& sender = lane.events[received.event];
    Arrow& arrow = arrows_[{{sender.rank, sender.column}, own}];
    arrow.extents.insert(arrow.extents.end(), sender.extents.begin(), sender.extents.end());
    arrow.isPartial |= received.mark == Mark::kPartial;
  }
}

std::string Panel::drawArrow(const Place& from, const Place& to, const Arrow& arrow) const {
  const int x1 = xOf(from) + kBox, y1 = yOf(from), x2 = xOf(to) - kBox - 3, y2 = yOf(to);
  const std::string color = arrow.isPartial ? "partial" : "whole";
  // Arrows that pass over columns bend, so that they are not taken for shorter ones.
  const int bend = to.second - from.second > 1 ? 26 : 0;
  const int mx = (x1 + x2) / 2, my = (y1 + y2) / 2 - bend;
  std::string text = "<path class=\"" + color + "\" marker-end=\"url(#" + color + ")\" d=\"M" +
                     number(x1) + " " + number(y1) + " Q" + number(mx) + " " + number(my) + " " +
                     number(x2) + " " + number(y2) + "\"/>\n";
  // Near the sender, and where arrows that wrap around pass between those that do not.
  const int halves = std::max(1, 27 * nranks_ / 100) * 2 - (nranks_ < 4 ? 1 : -1);
  const int percent = 50 * halves / nranks_;
  const int lx = x1 + (x2 - x1) * percent / 100;
  const int ly = y1 + (y2 - y1) * percent / 100 - bend * percent * (100 - percent) / 5000;
  return text + textAt(lx, ly + 4, arrow.isPartial ? "label sum" : "label", namesOf(arrow.extents));
}

std::string Panel::drawBox(const Place& place, const Box& box) const {
  const int x = xOf(place), y = yOf(place);
  const char* style = box.reduces ? "reduce" : box.moves ? "copy" : "signal";
  return "<g><title>rank " + number(place.first) + ", round " + number(place.second) + "\n" +
         escaped(box.steps) + "</title><rect class=\"" + style + "\" x=\"" + number(x - kBox) +
         "\" y=\"" + number(y - kBox) + "\" width=\"" + number(2 * kBox) + "\" height=\"" +
         number(2 * kBox) + "\" rx=\"4\"/>" +
         (box.reduces ? textAt(x, y + 6, "plus", "+") : std::string()) + "</g>\n";
}

std::string Panel::draw(const std::string& head) const {
  std::string text = textAt(14, top_ + 8, "head", head);
  for (int32_t column = 0; column < columns_; ++column)
    text += textAt(kLeft + kColumn * column, top_ + 26, "round",
                   column == 0 ? "begin" : "round " + number(column));
  for (int32_t rank = 0; rank < nranks_; ++rank) {
    const int y = yOf({rank, 0});
    text += "<path class=\"rank\" d=\"M" + number(kLeft - 20) + " " + number(y) + " H" +
            number(width() - 20) + "\"/>\n" + textAt(14, y + 4, "name", "rank " + number(rank));
  }
  for (const auto& [ends, arrow] : arrows_) text += drawArrow(ends.first, ends.second, arrow);
  for (const auto& [place, box] : boxes_) text += drawBox(place, box);
  return text;
}

std::string headOfFile(int width, int height) {
  const std::string size = "width=\"" + number(width) + "\" height=\"" + number(height) + "\"";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size + " viewBox=\"0 0 " + number(width) +
         " " + number(height) +
         "\" font-family=\"sans-serif\" font-size=\"12\">\n"
         "<style>.title{font-size:18px;font-weight:bold}.head{font-weight:bold}"
         ".round,.label,.plus{text-anchor:middle}.round{fill:#555}.rank{stroke:#ddd}"
         ".label{font-size:11px;fill:#1b4f8a;stroke:#fff;stroke-width:3px;paint-order:stroke}"
         ".sum{fill:#a03c00}.plus{font-size:18px;font-weight:bold;fill:#fff}"
         ".whole,.partial{fill:none;stroke-width:1.5}.whole{stroke:#3a7abf}"
         ".partial{stroke:#d2691e;stroke-dasharray:6 3}"
         ".copy{fill:#cfe2f7;stroke:#3a7abf}.reduce{fill:#d2691e;stroke:#8a3d00}"
         ".signal{fill:#fff;stroke:#888}</style>\n<defs>"
         "<marker id=\"whole\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" "
         "markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#3a7abf\"/></marker>"
         "<marker id=\"partial\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" "
         "markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#d2691e\"/></marker>"
         "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
}

std::string legend() {
  return "<rect class=\"copy\" x=\"14\" y=\"46\" width=\"16\" height=\"16\" rx=\"4\"/>" +
         textAt(36, 58, "key", "copies") +
         "<rect class=\"reduce\" x=\"90\" y=\"46\" width=\"16\" height=\"16\" rx=\"4\"/>" +
         textAt(112, 58, "key", "reduces") +
         "<path class=\"whole\" marker-end=\"url(#whole)\" d=\"M176 54 H210\"/>" +
         textAt(216, 58, "key", "contributions or results, with their blocks") +
         "<path class=\"partial\" marker-end=\"url(#partial)\" d=\"M470 54 H504\"/>" +
         textAt(510, 58, "key", "sums under way");
}

}  // namespace

base::Result<std::string> toSvg(std::span<const Plan> plans) {
  if (plans.size() > static_cast<size_t>(kMostDrawnRanks))
    return Status(Code::kInvalidArgument, number(static_cast<int>(plans.size())) +
                                              " ranks are too many to draw; take at most 16");
  OMNES_ASSIGN_OR_RETURN(const std::vector<LaneTraffic> lanes, trafficOf(plans, 1 << 16));
  std::vector<Panel> panels;
  int height = kTop, width = 660;
  size_t arrows = 0;
  for (const LaneTraffic& lane : lanes) {
    for (const TrafficEvent& event : lane.events) arrows += event.receives.size();
    panels.emplace_back(lane, plans[0].nranks, height);
    height += panels.back().height();
    width = std::max(width, panels.back().width());
  }
  if (arrows > kMostArrows)
    return Status(Code::kInvalidArgument,
                  std::to_string(arrows) + " arrows are too many to follow; take fewer ranks");
  std::string title = std::string(nameOf(plans[0].collective)) + " " + plans[0].algorithm + ", " +
                      number(plans[0].nranks) + " ranks";
  if (plans[0].root >= 0) title += ", root " + number(plans[0].root);
  title += "; " + number(plans[0].blocks) +
           (plans[0].cut == Cut::kInsideSlice ? " blocks a slice" : " blocks");
  std::string text = headOfFile(width, height) + textAt(14, 28, "title", title) + legend();
  for (size_t i = 0; i < panels.size(); ++i)
    text +=
        panels[i].draw(panels.size() == 1 ? std::string("one slice")
                                          : "lane " + std::to_string(i) + ", one of its slices");
  return text + "</svg>\n";
}

}  // namespace omnes::plan
