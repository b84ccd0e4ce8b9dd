// Questions whose answers may never come, such as those to a file system that somebody else serves: each is asked by a
// process of its own, which can be left where it hangs.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/values/value.h"

namespace weightfs {

/// Asks in the child process; what it changes (ids, directory, namespaces) is changed there only.
using Question = std::function<Map()>;

inline constexpr std::chrono::milliseconds kPatience{2000};

/// Why there is no answer: none came in time; or there was nobody to ask, or he died.
enum class NoAnswer { in_time, at_all };
using Reply = tl::expected<Map, NoAnswer>;

/// Asks all at once (where descriptors or processes do not suffice, some after the others) and returns each answer. A
/// process that does not answer in time is killed, and not waited for where even that does not end it: it holds none of
/// our descriptors. Where the process has other threads, a question takes no lock that one of them may hold: to
/// allocate and to read files is fine.
std::vector<Reply> ask_apart(const std::vector<Question>& questions, std::chrono::milliseconds patience = kPatience);

/// The same of one question; where no process can be had it is asked here, and may be waited for.
Reply ask_apart_if_possible(const Question& question);

/// In a question that changes its ids, which makes the system forget that it is to end when its asker does.
void end_with_parent();

/// The text under `key`, or nothing where there is none.
std::optional<std::string> text_in(const Map& map, std::string_view key);

/// The number under `key`, or nothing where there is none, or one below zero.
std::optional<uint64_t> number_in(const Map& map, std::string_view key);

}  // namespace weightfs
