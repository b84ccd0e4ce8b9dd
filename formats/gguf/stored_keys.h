// The keys of a GGUF as its file stores them: Model::metadata has neither their types nor their long lists.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/budget.h"
#include "base/result.h"
#include "formats/gguf/values.h"
#include "formats/gguf_keys.h"

namespace weightfs::gguf {

/// Calls `use` with each key, the entries that it is in, and its value, which is not kept. Fails with corrupt if they
/// cannot be read, as Budget::charge and reading do, and as `use` does.
Result<void> for_each_key(
    const GgufKeys& keys, Budget& budget,
    const std::function<Result<void>(const std::string& key, const Slice& entries, const StoredValue& value)>& use);

/// The types of all keys: "uint32", "array of string". Fails as for_each_key() does.
Result<std::map<std::string, std::string, std::less<>>> types_of_keys(const GgufKeys& keys, Budget& budget);

}  // namespace weightfs::gguf
