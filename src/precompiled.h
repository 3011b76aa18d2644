// The standard headers that most files of the library use, parsed once a folder when a build asks
// for it (-Db_pch=true, as tests/driver.py does under sanitizers). No file may count on it: builds
// are without it by default, so that each file is proven to include what it uses.
// lint: allow pragma-once (compiled by itself, where gcc warns of it, and included by no file)

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
