// Files read whole, without the standard library's streams, which take a lack of memory for an unreadable
// file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace lathe {

// Nothing: it cannot be opened or read, or has more than `most` bytes. Throws std::bad_alloc where memory is
// short.
std::optional<std::string> read_small_file(const std::string& path, size_t most);

}  // namespace lathe
