#include "core/assembler_search.h"

#include <stdexcept>

#include "core/json_object.h"

namespace lathe {

Json to_json(const AssemblerSearch& s) {
  return json_object("ptxas", s.ptxas, "directories", s.directories, "nvjitlink_directories",
                     s.nvjitlink_directories, "temporary", s.temporary, "timeout_seconds", s.timeout_seconds);
}

absl::StatusOr<AssemblerSearch> assembler_search_from_json(const Json& j) {
  return read_json("assembler search", [&] {
    AssemblerSearch s;
    s.ptxas = text_field(j, "ptxas");
    s.directories = j.at("directories").get<std::vector<std::string>>();
    s.nvjitlink_directories = j.at("nvjitlink_directories").get<std::vector<std::string>>();
    s.temporary = j.at("temporary").get<std::vector<std::string>>();
    s.timeout_seconds = number_field(j, "timeout_seconds");
    if (!(s.timeout_seconds > 0 && s.timeout_seconds <= 86400))
      throw std::out_of_range("\"timeout_seconds\" is not in (0, 86400]");
    expect_fields(j, 5);
    return s;
  });
}

}  // namespace lathe
