#include "nki/failure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace accelopt::nki::interp {

Fault::Fault(std::string outcome, std::string code, std::string message) {
    finding_.outcome = std::move(outcome);
    finding_.code = std::move(code);
    finding_.message = std::move(message);
}

Fault& Fault::shape(std::vector<std::int64_t> shape) {
    finding_.shapes.push_back(std::move(shape));
    return *this;
}

Fault& Fault::limit(std::int64_t limit) {
    finding_.limit = limit;
    return *this;
}

Fault& Fault::remedy(std::string text) {
    finding_.remedy = std::move(text);
    return *this;
}

Fault& Fault::operation(std::string name) {
    finding_.operation = std::move(name);
    return *this;
}

Fault& Fault::at(int line, int column) {
    finding_.line = line;
    finding_.column = column;
    return *this;
}

void Fault::raise() { throw TraceFailure{std::move(finding_)}; }

Fault rejected(std::string code, std::string message) {
    return {"rejected", std::move(code), std::move(message)};
}

Fault unsupported(std::string code, std::string message) {
    return {"unsupported", std::move(code), std::move(message)};
}

Fault exhausted(std::string code, std::string message) {
    return {"resource_limit", std::move(code), std::move(message)};
}

namespace {
[[noreturn]] void overflow() { unsupported("python_feature", "integer beyond 64 bits").raise(); }
}  // namespace

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) overflow();
    return result;
}

std::int64_t checked_subtract(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(a, b, &result)) overflow();
    return result;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) overflow();
    return result;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace accelopt::nki::interp
