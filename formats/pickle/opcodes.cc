// The opcodes of pickles, by groups.
#include <fmt/core.h>

#include <bit>

#include "base/text.h"
#include "formats/pickle/reader.h"
#include "formats/pickle/text.h"

namespace weightfs::pickle {
namespace {

// The maximum number of open marks; pickles have one or two for each level of nesting.
constexpr size_t kMaxMarks = 1000;

}  // namespace

Result<void> PickleReader::step(uint8_t op) {
  using Group = Result<bool> (PickleReader::*)(uint8_t);
  constexpr Group kGroups[] = {&PickleReader::stack_or_memo, &PickleReader::number,    &PickleReader::text,
                               &PickleReader::container,     &PickleReader::object,    &PickleReader::constant,
                               &PickleReader::filling,       &PickleReader::memo_line, &PickleReader::object_line};
  for (const Group group : kGroups)
    if (TRY((this->*group)(op))) return {};
  const bool is_extension = op >= 0x82 && op <= 0x84;
  if (is_extension)
    return failure(Code::unsupported,
                   fmt::format("pickle: an extension (opcode {:#04x}) at byte {}", op, in_.position() - 1));
  return fail(fmt::format("unknown opcode {:#04x}", op));
}

Result<bool> PickleReader::constant(uint8_t op) {
  switch (op) {
    case 0x80: {  // PROTO
      constexpr uint8_t kLast = 5;
      const auto protocol = TRY(in_.number<uint8_t>());
      if (protocol <= kLast) return true;
      return failure(Code::unsupported, fmt::format("pickle: protocol {}, at most {} is known", protocol, kLast));
    }
    case 0x95: {  // FRAME: its length helps to read ahead
      const auto size = TRY(in_.number<uint64_t>());
      machine_.frame_end = in_.position() + std::min(size, in_.left());
      return true;
    }
    case 0x97:  // NEXT_BUFFER
      return push_new({.kind = Kind::buffer});
    case 0x98:  // READONLY_BUFFER
      return true;
    case 'N':
      return push_new({});
    case 0x88:
    case 0x89:
      return push_new({.kind = Kind::boolean, .number = op == 0x88});
    default:
      return false;
  }
}

Result<bool> PickleReader::number(uint8_t op) {
  switch (op) {
    case 'K':
      return push_integer(TRY(in_.number<uint8_t>()));
    case 'M':
      return push_integer(TRY(in_.number<uint16_t>()));
    case 'J':
      return push_integer(TRY(in_.number<int32_t>()));
    case 0x8A:
      return push_long(TRY(in_.number<uint8_t>()));
    case 0x8B:
      return push_long(static_cast<uint64_t>(int64_t{TRY(in_.number<int32_t>())}));
    case 'G': {
      const uint64_t bits = TRY(in_.number<uint64_t>());
      return push_new({.kind = Kind::real, .number = __builtin_bswap64(bits)});
    }
    case 'F': {
      const std::string digits = TRY(line());
      const auto n = parse_real(trimmed(digits));
      if (!n) return fail("not a valid number");
      return push_new({.kind = Kind::real, .number = std::bit_cast<uint64_t>(*n)});
    }
    case 'I':
    case 'L': {
      const std::string digits = TRY(line());
      if (op == 'I' && (digits == "00" || digits == "01"))
        return push_new({.kind = Kind::boolean, .number = digits == "01"});
      return push_decimal(trimmed(digits));
    }
    default:
      return false;
  }
}

Result<bool> PickleReader::text(uint8_t op) {
  switch (op) {
    case 'X':
      return push_text(Kind::text, TRY(in_.number<uint32_t>()));
    case 'U':
    case 0x8C:
      return push_text(Kind::text, TRY(in_.number<uint8_t>()));
    case 'T':
      return push_text(Kind::text, static_cast<uint64_t>(int64_t{TRY(in_.number<int32_t>())}));
    case 0x8D:
      return push_text(Kind::text, TRY(in_.number<uint64_t>()));
    case 'C':
      return push_text(Kind::bytes, TRY(in_.number<uint8_t>()));
    case 'B':
      return push_text(Kind::bytes, TRY(in_.number<uint32_t>()));
    case 0x8E:
      return push_text(Kind::bytes, TRY(in_.number<uint64_t>()));
    case 0x96:
      return push_text(Kind::byte_array, TRY(in_.number<uint64_t>()));
    case 'V':
      return push_line(Spelling::unicode_escape);
    case 'S':
      return push_line(Spelling::string_escape);
    default:
      return false;
  }
}

Result<bool> PickleReader::container(uint8_t op) {
  switch (op) {
    case ']':
      return push_new({.kind = Kind::list});
    case '}':
      return push_new({.kind = Kind::dict});
    case 0x8F:
      return push_new({.kind = Kind::set});
    case ')':
      return push_new({.kind = Kind::tuple});
    case 0x85:
    case 0x86:
    case 0x87: {
      const size_t size = op - 0x84U;
      const size_t floor = machine_.marks.empty() ? 0 : machine_.marks.back();
      if (machine_.stack.size() - floor < size) return fail("a value is missing on the stack");
      return push_filled(Kind::tuple, machine_.stack.size() - size);
    }
    case 't':
      return push_filled(Kind::tuple, TRY(pop_mark()));
    case 'l':
      return push_filled(Kind::list, TRY(pop_mark()));
    case 'd':
      return push_filled(Kind::dict, TRY(pop_mark()));
    case 0x91:  // FROZENSET
      return push_filled(Kind::set, TRY(pop_mark()));
    default:
      return false;
  }
}

Result<bool> PickleReader::filling(uint8_t op) {
  const auto from_mark = [&](Kind with) -> Result<bool> {
    const size_t begin = TRY(pop_mark());
    if (begin == (machine_.marks.empty() ? 0 : machine_.marks.back())) return fail("a value is missing on the stack");
    return fill(machine_.stack[begin - 1], with, begin);
  };
  const auto last = [&](Kind with, size_t count) -> Result<bool> {
    const size_t floor = machine_.marks.empty() ? 0 : machine_.marks.back();
    if (machine_.stack.size() - floor < count + 1) return fail("a value is missing on the stack");
    return fill(machine_.stack[machine_.stack.size() - count - 1], with, machine_.stack.size() - count);
  };
  switch (op) {
    case 'a':
      return last(Kind::list, 1);
    case 's':
      return last(Kind::dict, 2);
    case 'e':
      return from_mark(Kind::list);
    case 'u':
      return from_mark(Kind::dict);
    case 0x90:
      return from_mark(Kind::set);
    default:
      return false;
  }
}

Result<bool> PickleReader::stack_or_memo(uint8_t op) {
  switch (op) {
    case '(':
      if (machine_.marks.size() == kMaxMarks)
        return failure(Code::unsupported, fmt::format("pickle: values nested deeper than {}", kMaxMarks));
      machine_.marks.push_back(machine_.stack.size());
      return true;
    case '0':
      // The unpickler removes the mark if there is no value above it.
      if (!machine_.marks.empty() && machine_.marks.back() == machine_.stack.size())
        return machine_.marks.pop_back(), true;
      return TRY(pop()), true;
    case '1':
      return machine_.stack.resize(TRY(pop_mark())), true;
    case '2':
      return push(TRY(top()));
    case 'q':
      return store(TRY(in_.number<uint8_t>()));
    case 'r':
      return store(TRY(in_.number<uint32_t>()));
    case 0x94:
      return store(machine_.memo.size() + machine_.other_slots.size());
    case 'h':
      return push_memo(TRY(in_.number<uint8_t>()));
    case 'j':
      return push_memo(TRY(in_.number<uint32_t>()));
    default:
      return false;
  }
}

Result<bool> PickleReader::memo_line(uint8_t op) {
  if (op != 'p' && op != 'g') return false;
  const std::string digits = TRY(line());
  const auto slot = parse_integer(trimmed(digits));
  if (!slot || *slot < 0) return fail("not a valid slot of the memo");
  return op == 'p' ? store(static_cast<uint64_t>(*slot)) : push_memo(static_cast<uint64_t>(*slot));
}

Result<bool> PickleReader::object(uint8_t op) {
  switch (op) {
    case 'Q':
      return push_persistent(TRY(pop()));
    case 0x93: {  // STACK_GLOBAL
      const Index name = TRY(pop());
      const Index module = TRY(pop());
      return push_global(name_part(module), name_part(name));
    }
    case 'R':
    case 0x81: {  // REDUCE, NEWOBJ
      const Index arguments = TRY(pop());
      return push_call(TRY(pop()), arguments);
    }
    case 0x92: {  // NEWOBJ_EX: the class, arguments, keyword arguments
      if (machine_.stack.size() - (machine_.marks.empty() ? 0 : machine_.marks.back()) < 3)
        return fail("a value is missing on the stack");
      TRY_VOID(push_filled(Kind::tuple, machine_.stack.size() - 2));
      const Index arguments = TRY(pop());
      return push_call(TRY(pop()), arguments);
    }
    case 'o': {  // OBJ: the class is the first value after the mark
      const size_t begin = TRY(pop_mark());
      if (begin == machine_.stack.size()) return fail("a value is missing on the stack");
      const Index callable = machine_.stack[begin];
      TRY_VOID(push_filled(Kind::tuple, begin + 1));
      const Index arguments = TRY(pop());
      machine_.stack.resize(begin);
      return push_call(callable, arguments);
    }
    case 'b': {
      const Index state = TRY(pop());
      return build(TRY(top()), state);
    }
    default:
      return false;
  }
}

Result<bool> PickleReader::object_line(uint8_t op) {
  switch (op) {
    case 'P': {
      const std::string identifier = TRY(line());
      TRY_VOID(push_kept(Kind::text, identifier));
      return push_persistent(TRY(pop()));
    }
    case 'c': {
      const std::string module = TRY(line());
      return push_global(module, TRY(line()));
    }
    case 'i': {  // INST: a global, called with the values after the mark
      const std::string module = TRY(line());
      const std::string name = TRY(line());
      const size_t begin = TRY(pop_mark());
      TRY_VOID(push_filled(Kind::tuple, begin));
      const Index arguments = TRY(pop());
      TRY_VOID(push_global(module, name));
      return push_call(TRY(pop()), arguments);
    }
    default:
      return false;
  }
}

}  // namespace weightfs::pickle
