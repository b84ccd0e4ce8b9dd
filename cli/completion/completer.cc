#include "cli/completion/completer.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "cli/completion/local_names.h"
#include "cli/mount/mount_options.h"
#include "cli/options/elements.h"

namespace weightfs::completion {
namespace {

constexpr size_t kShortDigest = 12;

bool begins_a_file_name(const std::string& word) {
  std::error_code error;
  for (std::filesystem::directory_iterator each(".", error), end; !error && each != end; each.increment(error))
    if (each->path().filename().string().starts_with(word)) return true;
  return false;
}

// Whether a value or argument with this name in --help is a SOURCE, as of diff and --against.
bool is_source(std::string_view kind) {
  return kind.starts_with("SOURCE") || kind == "MODEL" || kind == "A" || kind == "B";
}

class Completer {
 public:
  /// Behind `words`, which follow the names of `command`.
  Completer(const Command& command, std::span<const std::string> words)
      : command_(command), elements_(split_elements(command, words)) {
    for (const Element& element : elements_.all)
      if (element.kind == Element::Kind::argument) arguments_.push_back(element.word);
  }

  Completions complete(const std::string& word) && {
    const size_t equals = word.find('=');
    const bool is_option = !elements_.has_ended && word.starts_with('-');
    if (!elements_.all.empty() && elements_.all.back().kind == Element::Kind::missing_value) {
      complete_value(*elements_.all.back().option, "", word);
    } else if (is_option && equals != word.npos) {
      if (const Option* const option = find_option(command_, word.substr(0, equals)); option != nullptr)
        complete_value(*option, word.substr(0, equals + 1), word.substr(equals + 1));
    } else if (is_option) {
      complete_option(word);
    } else if (!command_.commands.empty()) {
      for (const Command& each : command_.commands) offer("", word, {each.name, each.help});
      if (out_.candidates.empty() && command_.implied.accepts != nullptr) complete_source("", word);
    } else if (const Argument* const argument = next_argument(); argument != nullptr) {
      complete_kind(argument->name, argument->choices, "", word);
    }
    return std::move(out_);
  }

 private:
  // The last argument may be repeated.
  const Argument* next_argument() const {
    const std::vector<Argument>& all = command_.arguments;
    if (arguments_.size() < all.size()) return &all[arguments_.size()];
    return all.empty() || !all.back().repeats() ? nullptr : &all.back();
  }

  void offer(const std::string& before, const std::string& word, Candidate candidate) {
    if (!candidate.text.starts_with(word) || candidate.text.empty()) return;
    candidate.text.insert(0, before);
    out_.candidates.push_back(std::move(candidate));
  }

  void offer_all(const std::string& before, const std::string& word, std::vector<std::string> texts) {
    std::ranges::sort(texts);
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    for (std::string& text : texts) offer(before, word, {std::move(text)});
  }

  void complete_option(const std::string& word) {
    for (const OptionGroup& group : command_.groups)
      for (const Option& option : group.options) {
        if (option.letter != 0) offer("", word, {{'-', option.letter}, option.help});
        if (!option.name.empty()) offer("", word, {"--" + option.name, option.help});
      }
    offer("", word, {"-h", kShortHelpOption});
    offer("", word, {"--help", kHelpOption});
    if (command_.name != "weightfs") return;
    offer("", word, {"-V", kVersionOption});
    offer("", word, {"--version", kVersionOption});
  }

  void complete_value(const Option& option, const std::string& before, const std::string& word) {
    if (option.value != "PATH") complete_kind(option.value, option.choices, before, word);
  }

  // `kind` is the name of a value or argument in --help. `before` is the part of the word before the value.
  void complete_kind(const std::string& kind, const std::vector<std::string>& choices, const std::string& before,
                     const std::string& word) {
    if (kind == "OPTIONS") return complete_mount_options(before, word);
    if (kind == "LIST") return complete_list(choices, before, word);
    if (!choices.empty()) {
      for (const std::string& each : choices) offer(before, word, {each});
    } else if (is_source(kind)) {
      complete_source(before, word);
    } else if (kind == "FILE" || kind == "OUT" || kind == "CONF") {
      offer_paths(Completions::Paths::files, before);
    } else if (kind == "DIR") {
      offer_paths(Completions::Paths::directories, before);
    } else if (kind == "MOUNTPOINT") {
      offer_all(before, word, mount_points());
      if (out_.candidates.empty()) offer_paths(Completions::Paths::directories, before);
    } else if (kind == "DIGEST|NAME") {
      offer_digests(before, word);
    } else if (kind == "USER" || kind == "GROUP") {
      offer_all(before, word, names_in(kind == "USER" ? "/etc/passwd" : "/etc/group"));
    } else if (kind == "PATH") {
      const auto tensors = command_.name == "fetch" ? TensorNames::no : TensorNames::if_no_path;
      offer_all(before, word, with_source([&](SourceInput& input) { return paths_in_model(input, word, tensors); }));
    } else if (kind == "TENSOR" || kind == "PATTERN") {
      offer_all(before, word, with_source([&](SourceInput& input) { return tensors_in_model(input, word); }));
    }
  }

  void offer_paths(Completions::Paths paths, const std::string& before) {
    out_.paths = paths;
    out_.before = before;
  }

  void complete_source(const std::string& before, const std::string& word) {
    constexpr std::string_view kOllama = "ollama:";
    constexpr std::string_view kHub = "hf://";
    if (word.starts_with(kOllama)) return offer_all(before, word, ollama_names());
    if (word.starts_with("hf:")) return offer_all(before, word, hub_names());
    const bool is_scheme = !word.empty() && (kOllama.starts_with(word) || kHub.starts_with(word));
    if (!is_scheme || begins_a_file_name(word)) return offer_paths(Completions::Paths::files, before);
    offer(before, word, {std::string(kOllama), "a model of Ollama"});
    offer(before, word, {std::string(kHub), "a repository of the Hugging Face Hub"});
  }

  // As `weightfs cache ls` prints them.
  void offer_digests(const std::string& before, const std::string& word) {
    std::vector<std::string> digests = cached_digests();
    if (word.size() <= kShortDigest)
      for (std::string& digest : digests) digest.resize(std::min(digest.size(), kShortDigest));
    offer_all(before, word, std::move(digests));
  }

  void complete_list(const std::vector<std::string>& choices, const std::string& before, const std::string& list) {
    const size_t last = list.rfind(',') + 1;
    out_.continues = true;
    for (const std::string& each : choices)
      if (("," + list.substr(0, last)).find("," + each + ",") == std::string::npos)
        offer(before + list.substr(0, last), list.substr(last), {each});
  }

  // An option in a list with commas, or its value.
  void complete_mount_options(const std::string& before, const std::string& list) {
    const std::string earlier = list.substr(0, list.rfind(',') + 1);
    const std::string word = list.substr(earlier.size());
    const size_t equals = word.find('=');
    MountOptions mount;
    const Options all = all_mount_options(mount);
    out_.continues = true;
    for (const Option& option : all) {
      if (equals != word.npos && option.word() == word.substr(0, equals))
        return complete_value(option, before + earlier + word.substr(0, equals + 1), word.substr(equals + 1));
      const bool is_given = option.value.empty() && ("," + earlier).find("," + option.word() + ",") != earlier.npos;
      if (equals == word.npos && !is_given)
        offer(before + earlier, word, {option.word() + (option.value.empty() ? "" : "="), option.help});
    }
  }

  // The names in the model of the first argument, which is opened with the options that were given.
  template <class Names>
  std::vector<std::string> with_source(const Names& names) const {
    if (arguments_.empty()) return {};
    SourceInput input;
    input.source = arguments_.front();
    for (const Option& option : all_source_options(input.open_options, input.store_flags))
      for (const Element& given : elements_.all)
        if (given.option != nullptr && given.option->name == option.name) (void)option.take(given.value);
    return names(input);
  }

  const Command& command_;
  const Elements elements_;
  std::vector<std::string> arguments_;
  Completions out_;
};

}  // namespace

Completions complete(const Command& program, const std::vector<std::string>& words) {
  const Command* command = &program;
  size_t next = 0;
  while (!command->commands.empty() && next + 1 < words.size()) {
    const Command* const implied = implied_command(*command, words[next]);
    command = implied != nullptr ? implied : find_command(*command, words[next++]);
    if (command == nullptr) return {};
  }
  const std::span<const std::string> all(words);
  if (all.empty()) return {};
  return Completer(*command, all.subspan(next, all.size() - 1 - next)).complete(all.back());
}

}  // namespace weightfs::completion
