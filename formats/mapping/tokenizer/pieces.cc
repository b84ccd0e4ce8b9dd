#include "formats/mapping/tokenizer/pieces.h"

#include <fmt/core.h>

#include <bit>
#include <string>

#include "base/text.h"
#include "formats/grouped.h"
#include "formats/mapping/tokenizer/tokenizer_json.h"
#include "formats/protobuf/scanner.h"

namespace weightfs::mapping {
namespace {

// Fields of ModelProto, SentencePiece and TrainerSpec (sentencepiece_model.proto).
constexpr uint32_t kPiece = protobuf::bytes(1);
constexpr uint32_t kTrainer = protobuf::bytes(2);
constexpr uint32_t kText = protobuf::bytes(1);
constexpr uint32_t kScore = protobuf::fixed32(2);
constexpr uint32_t kType = protobuf::varint(3);
constexpr uint32_t kModelType = protobuf::varint(3);

constexpr uint64_t kUnigram = 1;
constexpr uint64_t kUserDefined = 4;

Error in_model(const Error& error) { return with_message(error, "tokenizer.model: " + error.message); }

Result<TokenType> type_of_piece(uint64_t stored, PiecesFor purpose) {
  if (stored == kUserDefined) return purpose == PiecesFor::gguf ? TokenType::normal : TokenType::user_defined;
  const auto type = static_cast<TokenType>(stored);
  for (const TokenType known :
       {TokenType::normal, TokenType::unknown, TokenType::control, TokenType::unused, TokenType::byte})
    if (stored <= 6 && type == known) return known;
  return failure(Code::corrupt, fmt::format("a piece of the type {}", stored));
}

using protobuf::Field;
using protobuf::Message;

Result<void> add_piece(protobuf::Scanner& scanner, const Message& whole, const Field& place, PiecesFor purpose,
                       Pieces& out) {
  if (out.all.size() >= kMaxTokens)
    return failure(Code::unsupported, fmt::format("more than {} pieces", grouped(kMaxTokens)));
  const Message message = TRY(scanner.child(whole, place));
  Piece piece;
  std::string text;
  protobuf::Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == kText) text = TRY(scanner.text(field->bytes, kMaxTokenText));
    if (field->tag == kScore) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field->value));
    if (field->tag == kType) piece.type = TRY(type_of_piece(field->value, purpose));
  }
  if (!is_utf8(text)) return failure(Code::corrupt, fmt::format("piece {} is not UTF-8", out.all.size()));
  TRY_VOID(out.charges.charge(Cost::kept, text.size() + 2 * sizeof(Piece)));
  piece.text = out.texts.add(text);
  out.all.push_back(piece);
  return {};
}

Result<void> check_trainer(protobuf::Scanner& scanner, const Message& whole, const Field& place) {
  const Message message = TRY(scanner.child(whole, place));
  protobuf::Fields fields(scanner, message);
  while (const auto field = TRY(fields.next()))
    if (field->tag == kModelType && field->value == kUnigram)
      return failure(Code::unsupported, "the tokenizer is Unigram only");
  return {};
}

Result<void> read_fields(protobuf::Scanner& scanner, PiecesFor purpose, Pieces& out) {
  const Message whole = scanner.whole();
  protobuf::Fields fields(scanner, whole);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == kPiece) TRY_VOID(add_piece(scanner, whole, *field, purpose, out));
    if (field->tag == kTrainer && purpose == PiecesFor::gguf) TRY_VOID(check_trainer(scanner, whole, *field));
  }
  return out.all.empty() ? failure(Code::corrupt, "no pieces") : Result<void>();
}

}  // namespace

Result<Pieces> read_pieces(const Source& file, Budget& budget, PiecesFor purpose) {
  if (file.size() > kMaxTokenizerFile)
    return failure(Code::unsupported, fmt::format("tokenizer.model: {} is more than 64 MiB", human_size(file.size())));
  Pieces out(budget);
  protobuf::Scanner scanner(file, &budget);
  if (const auto read = read_fields(scanner, purpose, out); !read) return failure(in_model(read.error()));
  return out;
}

}  // namespace weightfs::mapping
