#include "formats/pickle/danger.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "formats/pickle/danger_names.h"
#include "formats/pickle/harmless_names.h"

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

// Names such as __builtins__, __globals__ and __getattribute__ lead to any function. Cython spells its constructors as
// __pyx_unpickle_Name.
bool is_special(std::string_view word) {
  return word.size() > 2 && word.starts_with("__") && !word.starts_with("__pyx_unpickle_");
}

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

// Whether a name may lead out of its module: through a function or another module, to a method, or through a name that
// Python itself sets. The __main__ of a package is a program, so it counts, too. A class in a class does not.
bool leads_elsewhere(std::string_view module, std::string_view member) {
  const auto of_module = components(module), of_member = components(member);
  if (std::any_of(of_module.begin() + 1, of_module.end(), is_special) || std::ranges::any_of(of_member, is_special))
    return true;
  return of_member.size() > 1 && std::ranges::any_of(of_member, is_function_name);
}

// A global by the names that Python 3 and current libraries have.
struct Spelled {
  std::string module, member;
  std::string text() const { return fmt::format("{}.{}", module, member); }
};

Spelled spelled(const Global& global) {
  constexpr std::string_view kOldPlace = "sklearn.externals.joblib.", kNewCore = "numpy._core";
  std::string_view module = std::string_view(global.text).substr(0, global.module_size);
  const std::string_view member = std::string_view(global.text).substr(std::min(module.size() + 1, global.text.size()));
  if (module.starts_with(kOldPlace)) module.remove_prefix(std::string_view("sklearn.externals.").size());
  if (is_within(module, kNewCore))
    return {fmt::format("numpy.core{}", module.substr(kNewCore.size())), std::string(member)};
  return {in_python_3(module), std::string(member)};
}

bool is_class_name(std::string_view word) {
  const size_t first = word.starts_with('_') ? 1 : 0;
  return first < word.size() && word[first] >= 'A' && word[first] <= 'Z' && !is_listed(kNotOwnClasses, word);
}

// Whether a name is one of those that a row of the allow list has.
bool is_in_row(const HarmlessNames& row, const Spelled& name) {
  const bool is_tree = row.module.ends_with(".*");
  const std::string_view outer = row.module.substr(0, row.module.size() - (is_tree ? 2 : 0));
  if (is_tree ? !is_within(name.module, outer) : name.module != outer) return false;
  const bool is_other =
      std::ranges::any_of(kNotHarmlessModules, [&](std::string_view module) { return is_within(name.module, module); });
  if (is_tree && is_other) return false;
  std::string_view left = row.names;
  while (!left.empty()) {
    const std::string_view word = left.substr(0, left.find(' '));
    left.remove_prefix(std::min(word.size() + 1, left.size()));
    if (word == "@classes"      ? is_class_name(name.member)
        : word.starts_with('*') ? name.member.ends_with(word.substr(1))
        : word.ends_with('*')   ? name.member.starts_with(word.substr(0, word.size() - 1))
                                : name.member == word)
      return true;
  }
  return false;
}

// Whether it is in the allow list. TorchScript's classes are part of the file, and are no modules of Python.
bool is_harmless(const Spelled& name) {
  if (is_within(name.module, "__torch__")) return true;
  if (name.member.find('.') != std::string::npos) return false;
  return std::ranges::any_of(kHarmlessNames, [&](const HarmlessNames& row) { return is_in_row(row, name); });
}

bool is_dangerous(const Spelled& name) {
  const std::string text = name.text();
  if (std::find(kValues.begin(), kValues.end(), text) != kValues.end()) return false;
  if (is_dangerous_module(text.substr(0, text.find('.'))) || loads_keras_model(text)) return true;
  return is_dangerous_name(text) || passes_through_module(name.member) || leads_elsewhere(name.module, name.member) ||
         is_doubtful_function(name.module, name.member);
}

}  // namespace

std::string in_python_3(std::string_view global) {
  for (const auto& [before, now] : kRenamed)
    if (is_within(global, before)) return fmt::format("{}{}", now, global.substr(before.size()));
  return std::string(global);
}

Standing standing_of(const Global& global) {
  if (global.text.find('?') != std::string::npos) return Standing::dangerous;
  const Spelled name = spelled(global);
  if (is_harmless(name)) return Standing::harmless;
  return is_dangerous(name) ? Standing::dangerous : Standing::unknown;
}

bool can_run_code(const Global& global) { return standing_of(global) == Standing::dangerous; }

std::string before_an_error(const std::vector<Global>& globals) {
  constexpr size_t kShown = 10;
  std::vector<std::string> dangerous;
  for (const Global& global : globals)
    if (dangerous.size() < kShown && can_run_code(global)) dangerous.push_back(printable(global.text));
  return dangerous.empty() ? "" : fmt::format("{}{}, which can run code)", kBeforeThat, fmt::join(dangerous, ", "));
}

bool names_danger(std::string_view message) { return message.find(kBeforeThat) != message.npos; }

}  // namespace weightfs::pickle
