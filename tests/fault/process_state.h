// What this process and its network namespace hold just now: descriptors, threads, memory, sockets.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace omnes::tests {

size_t openDescriptors();
size_t threads();
// Bytes of the heap that are in use, and pages that are in memory.
int64_t heapBytes();
int64_t residentBytes();

// Files of /dev/shm, names of abstract sockets that speak of omnes, and TCP ports that are listened
// on.
std::set<std::string> sharedFiles();
std::set<std::string> omnesSockets();
std::set<std::string> listeningPorts();

// Waits until `now` is at most `most`, for up to ten seconds: threads and sockets of a meeting end
// by themselves a moment after the last rank has left.
bool comesDownTo(size_t most, size_t (*now)());

}  // namespace omnes::tests
