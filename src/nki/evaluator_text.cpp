#include <fmt/format.h>

#include <cctype>

#include "nki/evaluator.h"
#include "nki/failure.h"

/// Text of values: f-strings, str.format and the % operator of strings.
namespace accelopt::nki::interp {
namespace {

constexpr std::size_t kMaxSpecification = 16;

[[noreturn]] void bad_format(const std::string& why) {
    rejected("value_error", "a format " + why).raise();
}

/// True when a format specification asks for no more than some width and precision.
bool is_modest(const std::string& specification) {
    if (specification.size() > kMaxSpecification) return false;
    int digits = 0;
    for (const char c : specification) {
        digits = std::isdigit(static_cast<unsigned char>(c)) != 0 ? digits + 1 : 0;
        if (digits > 3 || c == '{' || c == '}') return false;
    }
    return true;
}

}  // namespace

std::string Evaluator::format_value(const Value& value, const std::string& specification) const {
    if (specification.empty()) return str(value);
    if (!is_modest(specification))
        unsupported("python_feature", "the format specification ':" + specification + "'").raise();
    try {
        const std::string pattern = "{:" + specification + "}";
        if (value.is_integer()) {
            const bool as_float =
                std::string("eEfFgG%").find(specification.back()) != std::string::npos;
            if (!as_float) return fmt::format(fmt::runtime(pattern), value.integer());
        }
        if (value.is_number()) {
            if (specification.back() == '%')
                return fmt::format(
                           fmt::runtime("{:" + specification.substr(0, specification.size() - 1) +
                                        "f}"),
                           value.number() * 100) +
                       "%";
            return fmt::format(fmt::runtime(pattern), value.number());
        }
        return fmt::format(fmt::runtime(pattern), str(value));
    } catch (const fmt::format_error&) {
        bad_format("specification ':" + specification + "' does not fit " +
                   kind_name(value.kind()));
    }
}

/// "{} of {0} and {name:>4}".format(...)
Value Evaluator::format_string(const std::string& text, const std::vector<Value>& arguments,
                               const std::vector<std::pair<int, Value>>& keywords) {
    std::string out;
    std::size_t next = 0;
    for (std::size_t k = 0; k < text.size(); ++k) {
        const char c = text[k];
        const bool twice = k + 1 < text.size() && text[k + 1] == c;
        if ((c == '{' || c == '}') && twice) {
            out += c;
            ++k;
            continue;
        }
        if (c == '}') bad_format("string has a single '}'");
        if (c != '{') {
            out += c;
            continue;
        }
        const std::size_t end = text.find('}', k);
        if (end == std::string::npos) bad_format("string has a single '{'");
        const std::string field = text.substr(k + 1, end - k - 1);
        const std::size_t colon = field.find(':');
        std::string which = field.substr(0, colon);
        const std::string specification = colon == std::string::npos ? "" : field.substr(colon + 1);
        bool as_repr = false;
        if (which.size() >= 2 && which[which.size() - 2] == '!') {
            as_repr = which.back() == 'r';
            which.resize(which.size() - 2);
        }
        const Value* value = nullptr;
        if (which.empty() || std::isdigit(static_cast<unsigned char>(which[0])) != 0) {
            const std::size_t index = which.empty() ? next++ : std::stoul(which.substr(0, 6));
            if (index >= arguments.size()) bad_format("string has more fields than arguments");
            value = &arguments[index];
        } else {
            for (const auto& [keyword, given] : keywords)
                if (name(keyword) == which) value = &given;
            if (value == nullptr) bad_format("field '" + which + "' has no argument");
        }
        out += as_repr ? repr(*value) : format_value(*value, specification);
        k = end;
    }
    return string(std::move(out));
}

/// "%d of %s" % (a, b)
Value Evaluator::percent_format(const std::string& text, const Value& right) {
    const std::vector<Value> arguments =
        right.is(Kind::kTuple) ? items_of(right) : std::vector<Value>{right};
    std::string out;
    std::size_t next = 0;
    for (std::size_t k = 0; k < text.size(); ++k) {
        if (text[k] != '%') {
            out += text[k];
            continue;
        }
        std::size_t end = k + 1;
        while (end < text.size() &&
               std::string("0123456789.+- ").find(text[end]) != std::string::npos)
            ++end;
        if (end >= text.size()) bad_format("string ends in '%'");
        const char kind = text[end];
        std::string specification = text.substr(k + 1, end - k - 1);
        k = end;
        if (kind == '%') {
            out += '%';
            continue;
        }
        if (next >= arguments.size()) bad_format("string has more fields than arguments");
        const Value& value = arguments[next++];
        switch (kind) {
            case 's':
                out += specification.empty()
                           ? str(value)
                           : format_value(string(str(value)), ">" + specification);
                break;
            case 'r':
                out += repr(value);
                break;
            case 'd':
            case 'i':
                out += format_value(Value::integer(to_integer(value, "%d")), specification + "d");
                break;
            case 'f':
            case 'g':
            case 'e':
                out += format_value(value, specification + kind);
                break;
            default:
                bad_format(std::string("character '") + kind + "' is not supported");
        }
    }
    if (next != arguments.size()) bad_format("string has fewer fields than arguments");
    return string(std::move(out));
}

}  // namespace accelopt::nki::interp
