// What this process and its network namespace hold just now: descriptors, threads, memory, sockets.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace omnes::tests {

// Threads by id with their names, descriptors by number with what they refer to. A baseline of them
// is a set and no count: what was only passing when it was taken, such as a thread that has been
// joined but that the kernel still lists, makes no room for something that is left.
using Held = std::map<int, std::string>;
Held heldThreads();
Held heldDescriptors();

// Threads before a test has begun: what runs already, and what a sanitizer adds beside the first
// thread that is started (ThreadSanitizer has one of its own from then on).
Held usualThreads();

// Waits until `now` holds nothing that is not in `before`, for up to ten seconds: threads and
// sockets of a meeting end by themselves a moment after the last rank has left. Returns what is
// left, in words; empty when that is nothing.
std::string leftBeyond(const Held& before, Held (*now)());

// Bytes of the heap that are in use, and pages that are in memory.
int64_t heapBytes();
int64_t residentBytes();

// Files of /dev/shm, names of abstract sockets that speak of omnes, and TCP ports that are listened
// on.
std::set<std::string> sharedFiles();
std::set<std::string> omnesSockets();
std::set<std::string> listeningPorts();

}  // namespace omnes::tests
