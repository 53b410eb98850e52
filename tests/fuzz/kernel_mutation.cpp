#include "kernel_mutation.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "core/text.h"
#include "eval/problem.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"

namespace accelopt::fuzz {
namespace {

using nki::Expr;
using nki::ExprKind;
using nki::ExprPtr;
using nki::StmtKind;

nki::Argument argument_of(const std::string& text) {
    const std::size_t bracket = text.find('[');
    if (bracket == std::string::npos) {
        if (text == "true" || text == "false") return text == "true";
        if (text.find_first_of(".e") == std::string::npos) return std::int64_t{std::stoll(text)};
        return std::stod(text);
    }
    nki::TensorArgument argument;
    for (int k = 0; k <= static_cast<int>(nki::DType::kBool); ++k)
        if (to_string(static_cast<nki::DType>(k)) == text.substr(0, bracket))
            argument.dtype = static_cast<nki::DType>(k);
    for (const std::string& n : split(text.substr(bracket + 1, text.size() - bracket - 2), ','))
        argument.shape.push_back(std::stoll(n));
    return argument;
}

/// The second line of a golden kernel: "# args: float32[128,512] 1.0".
std::vector<nki::Argument> golden_arguments(const std::string& source) {
    std::vector<nki::Argument> arguments;
    const std::string mark = "# args: ";
    const std::size_t at = source.find(mark);
    if (at == std::string::npos) return arguments;
    std::istringstream words(
        source.substr(at + mark.size(), source.find('\n', at) - at - mark.size()));
    for (std::string word; words >> word;) arguments.push_back(argument_of(word));
    return arguments;
}

/// Text in pieces: names, numbers, strings of one operator, and the space between.
std::vector<std::string> tokens_of(const std::string& text) {
    std::vector<std::string> tokens;
    const auto is_word = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    for (std::size_t k = 0; k < text.size();) {
        std::size_t end = k + 1;
        if (is_word(text[k])) {
            while (end < text.size() && is_word(text[end])) ++end;
        } else if (text[k] == ' ') {
            while (end < text.size() && text[end] == ' ') ++end;
        }
        tokens.push_back(text.substr(k, end - k));
        k = end;
    }
    return tokens;
}

const char* const kNumbers[] = {
    "0",  "1",   "-1",  "2",   "3",   "32",        "63",
    "64", "127", "128", "129", "512", "513",       "1024",
    "4",  "7",   "1.5", "0.0", "1e9", "999999999", "9223372036854775807"};
const char* const kOperators[] = {"+", "-",  "*",  "//", "%",  "/", "**", "<<", ">>", "&", "|", "<",
                                  ">", "<=", ">=", "==", "!=", ":", ",",  "(",  ")",  "[", "]"};

std::string mutate_tokens(const std::string& source, const std::string& other,
                          RandomStream& random) {
    std::vector<std::string> tokens = tokens_of(source);
    const std::vector<std::string> donor = tokens_of(other);
    const std::uint64_t times = 1 + random.below(2);
    for (std::uint64_t n = 0; n < times && tokens.size() > 2; ++n) {
        const std::size_t at = random.below(tokens.size());
        const std::size_t to = random.below(tokens.size());
        switch (random.below(7)) {
            case 0:
                std::swap(tokens[at], tokens[to]);
                break;
            case 1:
                tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at));
                break;
            case 2:
                tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(at), tokens[to]);
                break;
            case 3:
                tokens[at] = donor[random.below(donor.size())];
                break;
            case 4:
                tokens[at] = tokens[to];
                break;
            case 5:
                tokens[at] = kNumbers[random.below(std::size(kNumbers))];
                break;
            default:
                tokens[at] = kOperators[random.below(std::size(kOperators))];
                break;
        }
    }
    std::string text;
    for (const std::string& token : tokens) text += token;
    return text;
}

/// All places of a syntax tree that a mutation may pick.
struct Places {
    std::vector<ExprPtr*> expressions;
    std::vector<ExprPtr*> telling;  ///< numbers, operators, comparisons, slices
    std::vector<nki::Block*> blocks;
};

void collect(ExprPtr& expr, Places& places) {
    if (!expr) return;
    places.expressions.push_back(&expr);
    const bool number =
        expr->kind == ExprKind::kConstant && std::holds_alternative<std::int64_t>(expr->constant);
    if (number || expr->kind == ExprKind::kBinary || expr->kind == ExprKind::kCompare ||
        expr->kind == ExprKind::kSlice)
        places.telling.push_back(&expr);
    for (ExprPtr& operand : expr->operands) collect(operand, places);
    for (nki::Keyword& keyword : expr->keywords) collect(keyword.value, places);
}

void collect(nki::Block& block, Places& places) {
    places.blocks.push_back(&block);
    for (nki::StmtPtr& stmt : block) {
        for (ExprPtr& target : stmt->targets) collect(target, places);
        collect(stmt->value, places);
        collect(stmt->body, places);
        collect(stmt->otherwise, places);
    }
}

constexpr std::int64_t kValues[] = {0,  1,  -1,  2,   3,   4,   16,  31,  32,   33,
                                    64, 96, 127, 128, 129, 256, 511, 512, 513,  1024,
                                    7,  65, 100, -2,  8,   6,   640, 192, 2048, 1'000'000'000'000};
const char* const kBinary[] = {"+", "-", "*", "//", "%", "/", "&", "|", "**", "<<", ">>", "@"};
const char* const kCompare[] = {"<", "<=", ">", ">=", "==", "!=", "in", "is"};
const char* const kNames[] = {"affine_range",  "sequential_range",
                              "static_range",  "load",
                              "store",         "copy",
                              "zeros",         "ndarray",
                              "exp",           "sum",
                              "max",           "multiply",
                              "add",           "transpose",
                              "matmul",        "broadcast_to",
                              "psum",          "sbuf",
                              "hbm",           "shared_hbm",
                              "float32",       "bfloat16",
                              "float16",       "int32",
                              "uint8",         "int8",
                              "nc_matmul",     "nc_transpose",
                              "activation",    "tensor_scalar",
                              "tensor_reduce", "iota",
                              "memset",        "reshape",
                              "shape",         "arange",
                              "mgrid",         "where",
                              "reciprocal",    "rsqrt"};

void mutate_expression(ExprPtr& expr, const Places& places, RandomStream& random) {
    Expr& e = *expr;
    switch (e.kind) {
        case ExprKind::kConstant:
            if (std::int64_t* value = std::get_if<std::int64_t>(&e.constant)) {
                *value = random.below(2) == 0
                             ? kValues[random.below(std::size(kValues))]
                             : *value + static_cast<std::int64_t>(random.below(5)) - 2;
                return;
            }
            break;
        case ExprKind::kBinary:
            if (random.below(3) == 0) std::swap(e.operands[0], e.operands[1]);
            e.text = kBinary[random.below(std::size(kBinary))];
            return;
        case ExprKind::kCompare:
            if (!e.comparators.empty())
                e.comparators[random.below(e.comparators.size())] =
                    kCompare[random.below(std::size(kCompare))];
            return;
        case ExprKind::kAttribute:
            if (random.below(2) == 0) {
                e.text = kNames[random.below(std::size(kNames))];
                return;
            }
            break;
        case ExprKind::kCall:
            if (!e.keywords.empty() && random.below(3) == 0) {
                e.keywords.erase(e.keywords.begin() +
                                 static_cast<std::ptrdiff_t>(random.below(e.keywords.size())));
                return;
            }
            if (e.operands.size() > 2 && random.below(2) == 0) {
                std::swap(e.operands[1], e.operands[2]);
                return;
            }
            if (e.operands.size() > 1 && random.below(3) == 0) {
                e.operands.pop_back();
                return;
            }
            break;
        case ExprKind::kTuple:
        case ExprKind::kList:
            if (e.operands.size() > 1 && random.below(2) == 0) {
                std::swap(e.operands[0], e.operands[1]);
                return;
            }
            if (e.operands.size() > 1 && random.below(2) == 0) {
                e.operands.pop_back();
                return;
            }
            break;
        case ExprKind::kSlice:
            if (e.operands.size() >= 2) {
                const std::size_t k = random.below(e.operands.size());
                if (e.operands[k] && random.below(2) == 0) {
                    e.operands[k] = nullptr;
                } else {
                    auto number = std::make_unique<Expr>();
                    number->constant = kValues[random.below(std::size(kValues))];
                    e.operands[k] = std::move(number);
                }
                return;
            }
            break;
        default:
            break;
    }
    // Anything may become a copy of another expression.
    ExprPtr copy = nki::clone(*places.expressions[random.below(places.expressions.size())]);
    expr = std::move(copy);
}

void mutate_block(const Places& places, RandomStream& random) {
    nki::Block& block = *places.blocks[random.below(places.blocks.size())];
    if (block.empty()) return;
    const std::size_t at = random.below(block.size());
    const auto place = [&](std::size_t k) {
        return block.begin() + static_cast<std::ptrdiff_t>(k);
    };
    switch (random.below(5)) {
        case 0:
            if (block.size() > 1) block.erase(place(at));
            break;
        case 1:
            block.insert(place(at), nki::clone(*block[at]));
            break;
        case 2:
            std::swap(block[at], block[random.below(block.size())]);
            break;
        case 3: {
            const nki::Block& from = *places.blocks[random.below(places.blocks.size())];
            if (from.empty()) break;
            nki::StmtPtr copy = nki::clone(*from[random.below(from.size())]);
            block.insert(place(at), std::move(copy));
            break;
        }
        default:
            // The body of a loop or branch takes the statement's place.
            if (!block[at]->body.empty() && block[at]->kind != StmtKind::kFunction) {
                nki::Block body = std::move(block[at]->body);
                block.erase(place(at));
                for (std::size_t k = 0; k < body.size(); ++k)
                    block.insert(place(at + k), std::move(body[k]));
            }
            break;
    }
}

std::string mutate_tree(const std::string& source, RandomStream& random) {
    auto module = nki::parse(source);
    if (!module) return source;
    const std::uint64_t times = 1 + random.below(3);
    for (std::uint64_t n = 0; n < times; ++n) {
        Places places;
        collect(module->body, places);
        if (places.expressions.empty()) break;
        if (random.below(4) == 0) {
            mutate_block(places, random);
        } else {
            // Mostly where a mutant stays a program: most others end as type errors.
            const auto& from = places.telling.empty() || random.below(4) == 0 ? places.expressions
                                                                              : places.telling;
            mutate_expression(*from[random.below(from.size())], places, random);
        }
    }
    return nki::print(*module);
}

}  // namespace

std::vector<Seed> load_seeds(const std::string& source_folder) {
    std::vector<Seed> seeds;
    for (const std::string& id : eval::shipped_problems()) {
        const eval::Problem problem = eval::load_problem(id, "test");
        seeds.push_back({id, problem.baseline_source, problem.kernel_arguments()});
    }
    std::vector<std::string> paths;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(source_folder + "/tests/golden/nki"))
        if (entry.path().extension() == ".py") paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
        const std::string source = read_file(path);
        seeds.push_back(
            {std::filesystem::path(path).stem().string(), source, golden_arguments(source)});
    }
    return seeds;
}

std::string mutate(const Seed& seed, const std::vector<Seed>& all, RandomStream& random) {
    const Seed& donor = all[random.below(all.size())];
    switch (random.below(10)) {
        case 0:
        case 1:
            return mutate_tokens(seed.source, donor.source, random);
        case 2:
            return mutate_tokens(mutate_tree(seed.source, random), donor.source, random);
        default:
            return mutate_tree(seed.source, random);
    }
}

}  // namespace accelopt::fuzz
