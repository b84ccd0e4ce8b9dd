#include "formats/summary/tensors/target_groups.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace weightfs::summary {
namespace {

using Group = StatedPacking::Group;

constexpr std::string_view kPattern = "re:";
constexpr size_t kMaxGroupTargets = 1'000;  // of all groups; each module is compared with each of them
constexpr size_t kMaxPatterns = 16;
constexpr size_t kMaxPatternSize = 200;  // also the depth of the recursion
constexpr size_t kMaxSteps = 2'000;

// Matches the start of a name with a simple regular expression: characters, `.`, `\.`, `\d`, `[0-9]`, `*`, `+`, `$` at
// the end, and `(a|b)`.
class TargetPattern {
 public:
  /// Nothing if the pattern has other parts, or takes too many steps.
  std::optional<bool> matches(std::string_view pattern, std::string_view name) {
    if (pattern.size() > kMaxPatternSize) return std::nullopt;
    if (pattern.starts_with('^')) pattern.remove_prefix(1);
    const bool found = matches_here(pattern, name);
    return is_known_ ? std::optional(found) : std::nullopt;
  }

 private:
  struct Item {
    size_t size;  // in the pattern
    bool is_any, is_digits;
    char character;

    bool fits(char c) const { return is_any || (is_digits ? c >= '0' && c <= '9' : c == character); }
  };

  static std::optional<Item> first_item(std::string_view pattern) {
    static constexpr std::string_view kSpecial = "*+?{}[]()|^$\\";
    if (pattern.starts_with("[0-9]")) return Item{5, false, true, 0};
    if (pattern.starts_with("\\d")) return Item{2, false, true, 0};
    if (pattern.starts_with("\\.")) return Item{2, false, false, '.'};
    if (pattern.starts_with('.')) return Item{1, true, false, 0};
    if (kSpecial.find(pattern.front()) != kSpecial.npos) return std::nullopt;
    return Item{1, false, false, pattern.front()};
  }

  bool fail() { return is_known_ = false; }

  bool matches_here(std::string_view pattern, std::string_view text) {
    if (!is_known_ || ++steps_ > kMaxSteps) return fail();
    if (pattern.empty()) return true;
    if (pattern == "$") return text.empty();
    if (pattern.front() == '(') return matches_one_of(pattern, text);
    const auto item = first_item(pattern);
    if (!item) return fail();
    const std::string_view rest = pattern.substr(item->size);
    if (!rest.starts_with('*') && !rest.starts_with('+'))
      return !text.empty() && item->fits(text.front()) && matches_here(rest, text.substr(1));
    for (size_t count = 0; is_known_; ++count) {
      if ((count > 0 || rest.front() == '*') && matches_here(rest.substr(1), text.substr(count))) return true;
      if (count == text.size() || !item->fits(text[count])) return false;
    }
    return false;
  }

  bool matches_one_of(std::string_view pattern, std::string_view text) {
    const size_t end = pattern.find(')');
    const std::string_view rest = end == pattern.npos ? pattern : pattern.substr(end + 1);
    if (end == pattern.npos || pattern.find('(', 1) < end ||
        (!rest.empty() && std::string_view("*+?{").find(rest.front()) != rest.npos))
      return fail();
    std::string_view left = pattern.substr(1, end - 1);
    if (left.starts_with("?:")) left.remove_prefix(2);
    for (bool has_more = true; has_more;) {
      const size_t size = std::min(left.find('|'), left.size());
      if (matches_here(std::string(left.substr(0, size)) + std::string(rest), text)) return true;
      has_more = size < left.size();
      left.remove_prefix(has_more ? size + 1 : size);
    }
    return false;
  }

  size_t steps_ = 0;
  bool is_known_ = true;
};

enum class Target : uint8_t { other, unknown, any_linear, pattern, end, name };

Target compare_target(std::string_view target, std::string_view module) {
  if (target.starts_with(kPattern)) {
    const auto found = TargetPattern().matches(target.substr(kPattern.size()), module);
    return !found ? Target::unknown : *found ? Target::pattern : Target::other;
  }
  if (target == "Linear") return Target::any_linear;
  if (target == module) return Target::name;
  if (!target.empty() && target[0] >= 'A' && target[0] <= 'Z') return Target::unknown;  // a class
  const bool is_end =
      module.size() > target.size() && module.ends_with(target) && module[module.size() - target.size() - 1] == '.';
  return is_end ? Target::end : Target::other;
}

bool has_too_many_targets(const std::vector<Group>& groups) {
  size_t targets = 0;
  size_t patterns = 0;
  for (const Group& group : groups) {
    targets += group.targets.size();
    for (const std::string& target : group.targets)
      if (target.starts_with(kPattern)) ++patterns;
  }
  return targets > kMaxGroupTargets || patterns > kMaxPatterns;
}

}  // namespace

const Group* targeted_group(const std::vector<Group>& groups, std::string_view module) {
  if (has_too_many_targets(groups)) return nullptr;
  const Group* best = nullptr;
  Target how = Target::other;
  bool is_unique = true;
  bool has_unknown = false;
  for (const Group& group : groups)
    for (const std::string& target : group.targets) {
      const Target found = compare_target(target, module);
      has_unknown |= found == Target::unknown;
      if (found == Target::other || found == Target::unknown || found < how) continue;
      is_unique = found > how || best == &group;
      how = found;
      best = &group;
    }
  const bool is_certain = how == Target::name || !has_unknown;
  return is_unique && is_certain ? best : nullptr;
}

}  // namespace weightfs::summary
