// The threads of this process, as far as they are not the library's. Thread-safe, for slow paths
// only: reads /proc.
#pragma once

#include <optional>

namespace omnes::base {

struct OtherTasks {
  int count = 0;  // threads that neither are the calling one nor belong to the library
  // The youngest of them was started this long ago, in seconds (to a hundredth); 0 without any.
  double youngestAge = 0;
};

// Nothing when /proc does not say, or when the calling thread is one of the library's. A thread
// counts as the library's by its name ("omnes-..."), so one that is just starting counts as a
// stranger.
std::optional<OtherTasks> otherTasks();

}  // namespace omnes::base
