// Reads a whole file. std::ifstream is not used, because it reports a lack of memory as an unreadable file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace lathe {

// Returns nullopt if the file cannot be opened or read, or has more than `most` bytes. Throws std::bad_alloc
// if memory is short.
std::optional<std::string> read_small_file(const std::string& path, size_t most);

}  // namespace lathe
