// The names below a mount of a container, from the parts that differ between formats.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

namespace weightfs::test {

using Names = std::vector<std::string>;

/// Each of `names`, with `directory` in front.
inline Names in(const std::string& directory, Names names) {
  for (std::string& name : names) name.insert(0, directory);
  return names;
}

inline Names joined(std::initializer_list<Names> lists) {
  Names all;
  for (const Names& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// The files of every tree, and the files of each format. `texts` are the entries of npy/ without numbers.
inline Names tree(const Names& files, const Names& documents, const Names& npy, const Names& tensors,
                  const Names& nested = {}, const Names& texts = {}) {
  Names float32 = npy;
  std::erase_if(float32, [&](const std::string& name) { return std::ranges::count(texts, name) > 0; });
  return joined({{"files/"},
                 in("files/", files),
                 {"float32/"},
                 in("float32/", float32),
                 documents,
                 {"metadata.json", "metadata.toml"},
                 nested,
                 {"npy/"},
                 in("npy/", npy),
                 {"tensors/"},
                 in("tensors/", tensors),
                 {"tensors.json", "views/"}});
}

/// A container of one file and one tensor, in another one at `path`.
inline Names nested(const std::string& directory, const std::string& name, const std::string& tensor) {
  const std::string at = fmt::format("nested/{}{}/", directory, name);
  const Names above = directory.empty() ? Names{"nested/"} : Names{"nested/", "nested/" + directory};
  return joined({above, {at}, in(at, tree({name}, {}, {tensor + ".npy"}, {tensor}))});
}

inline Names with_warnings(Names names) {
  names.emplace_back("warnings.txt");
  return names;
}

}  // namespace weightfs::test
