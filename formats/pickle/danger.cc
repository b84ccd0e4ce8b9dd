#include "formats/pickle/danger.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "formats/pickle/danger_names.h"

namespace weightfs::pickle {
namespace {

constexpr std::string_view kBeforeThat = " (before that it names ";

// Whether a word is in one of the lists of words with a space before and after each.
bool is_listed(std::string_view words, std::string_view word) {
  return word.find(' ') == word.npos && words.find(fmt::format(" {} ", word)) != words.npos;
}

bool is_dangerous_module(std::string_view module) { return is_listed(kModules, module); }

// Whether `name` is `outer` or inside of it.
bool is_within(std::string_view name, std::string_view outer) {
  return name.starts_with(outer) && (name.size() == outer.size() || name[outer.size()] == '.');
}

// Without underscores at its beginning and end: modules import others under such names.
std::string_view plain(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('_'), word.size()));
  return word.substr(0, word.find_last_not_of('_') + 1);
}

bool is_dangerous_name(std::string_view name) {
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view outer) { return is_within(name, outer); });
}

// Whether a name inside of a module reaches into one of the modules, also under a name with underscores:
// "core.multiarray.os.system" of numpy, "_os.system" of random, "builtins.exec" of codecs.
bool passes_through_module(std::string_view name) {
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.')) {
    const std::string_view word = plain(name.substr(0, dot));
    if (is_dangerous_module(name.substr(0, dot)) || is_dangerous_module(word)) return true;
    if (is_dangerous_name(in_python_3(fmt::format("{}{}", word, name.substr(dot))))) return true;
    name.remove_prefix(dot + 1);
  }
  return false;
}

// keras.models.load_model, tensorflow.keras.models.load_model
bool loads_keras_model(std::string_view name) {
  return (is_within(name, "keras") || is_within(name, "tensorflow") || is_within(name, "tf_keras")) &&
         name.ends_with(".load_model");
}

// Names such as __builtins__, __globals__ and __getattribute__ lead to any function.
bool is_dunder(std::string_view word) { return word.size() > 4 && word.starts_with("__") && word.ends_with("__"); }

// Classes begin with a capital letter, functions and modules do not.
bool is_function_name(std::string_view word) {
  const size_t first = word.find_first_not_of('_');
  return first != word.npos && word[first] >= 'a' && word[first] <= 'z';
}

// The words between the dots.
std::vector<std::string_view> components(std::string_view name) {
  std::vector<std::string_view> words;
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.')) {
    words.push_back(name.substr(0, dot));
    name.remove_prefix(dot + 1);
  }
  words.push_back(name);
  return words;
}

bool is_plain_function(std::string_view name) {
  return std::ranges::any_of(kPlainFunctions, [&](std::string_view plain) {
    if (!plain.ends_with('*')) return name == plain;
    plain.remove_suffix(1);
    return name.starts_with(plain) && name.find('.', plain.size()) == name.npos;
  });
}

// Whether a function of one of Python's modules, or of a common library, may do more than compute. `member` is its name
// in the module, perhaps with that of its class.
bool is_doubtful_function(std::string_view module, std::string_view member) {
  const std::string_view top = module.substr(0, module.find('.'));
  const std::string_view last = member.substr(member.rfind('.') + 1);
  const bool has_classes = is_listed(kClassModules, top), computes = is_listed(kComputingModules, top);
  if (!has_classes && !computes && !is_listed(kLibraries, top)) return false;
  if (is_dangerous_module(plain(last))) return true;  // a module that this one imports
  if (!is_function_name(last) || is_plain_function(fmt::format("{}.{}", module, member))) return false;
  if (has_classes || member.find('.') != member.npos) return true;
  if (computes) return last.starts_with('_');
  return std::ranges::any_of(kFunctionModules, [&](std::string_view outer) { return is_within(module, outer); });
}

// Whether a name may lead out of its module: through a function, through another module that it has imported, or
// through a name that Python itself sets. The __main__ of a package is a program, so it counts, too.
bool leads_elsewhere(std::string_view module, std::string_view member) {
  const auto of_module = components(module), of_member = components(member);
  const auto is_inner = [](std::string_view word) { return is_function_name(word); };
  return std::any_of(of_module.begin() + 1, of_module.end(), is_dunder) || std::ranges::any_of(of_member, is_dunder) ||
         std::any_of(of_member.begin(), of_member.end() - 1, is_inner);
}

}  // namespace

std::string in_python_3(std::string_view global) {
  for (const auto& [before, now] : kRenamed)
    if (is_within(global, before)) return fmt::format("{}{}", now, global.substr(before.size()));
  return std::string(global);
}

bool can_run_code(const Global& global) {
  constexpr std::string_view kOldPlace = "sklearn.externals.";  // of joblib
  const std::string_view text = global.text;
  if (text.find('?') != text.npos) return true;
  const std::string name = in_python_3(text.substr(text.starts_with(kOldPlace) ? kOldPlace.size() : 0));
  if (std::find(kValues.begin(), kValues.end(), name) != kValues.end()) return false;
  if (is_dangerous_module(name.substr(0, name.find('.'))) || loads_keras_model(name)) return true;
  const std::string_view member = text.substr(std::min(global.module_size + 1, text.size()));
  const std::string module = in_python_3(text.substr(0, global.module_size));
  return is_dangerous_name(name) || passes_through_module(member) || leads_elsewhere(module, member) ||
         is_doubtful_function(module, member);
}

std::string before_an_error(const std::vector<Global>& globals) {
  constexpr size_t kShown = 10;
  std::vector<std::string> dangerous;
  for (const Global& global : globals)
    if (dangerous.size() < kShown && can_run_code(global)) dangerous.push_back(printable(global.text));
  return dangerous.empty() ? "" : fmt::format("{}{}, which can run code)", kBeforeThat, fmt::join(dangerous, ", "));
}

bool names_danger(std::string_view message) { return message.find(kBeforeThat) != message.npos; }

}  // namespace weightfs::pickle
