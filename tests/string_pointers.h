// Arguments and environments for exec and its kind.
#pragma once

#include <string>
#include <vector>

namespace lathe {

// Pointers to the characters of `texts`, and a null pointer at the end. Valid while `texts` is unchanged.
inline std::vector<char*> string_pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace lathe
