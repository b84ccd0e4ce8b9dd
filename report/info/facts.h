// The facts of a screen: lines with a label and a value, in the order in which people ask. What is not known has none.
#pragma once

#include <string>
#include <vector>

#include "report/info/subject.h"
#include "report/text/style.h"

namespace weightfs::info {

/// How soon a fact is left out of a screen that is too long; those of the same rank from the last one on.
enum class Rank { first, files, repository, base, no_licence, embeddings, memory, other, never };

struct Fact {
  std::string label;
  std::string value;  ///< clean text, perhaps in a colour
  Rank rank = Rank::other;
};

/// The licence that a model states; empty if it states none.
std::string licence_of(const Subject& subject);

/// The facts of a model. A narrow screen has fewer and shorter ones.
std::vector<Fact> facts_of(const Subject& subject, const Style& style);

}  // namespace weightfs::info
