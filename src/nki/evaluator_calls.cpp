#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "nki/builtins.h"
#include "nki/evaluator.h"
#include "nki/failure.h"
#include "nki/nesting.h"

namespace accelopt::nki::interp {
namespace {

using Keywords = std::vector<std::pair<int, Value>>;

[[noreturn]] void unexpected_keyword(std::string_view function, const std::string& keyword,
                                     const ApiParameters& parameters) {
    std::vector<std::string> names;
    for (const ApiParameters::Parameter& parameter : parameters.list)
        names.push_back(parameter.name);
    const std::string near = nearest_word(keyword, names);
    rejected("type_error",
             fmt::format("{}() got an unexpected keyword argument '{}'{}", function, keyword,
                         near.empty() ? "" : fmt::format(", did you mean '{}'?", near)))
        .remedy("its parameters are: " + join(names, ", "))
        .raise();
}

/// Restores a member on the way out.
template <typename T>
class Restore {
  public:
    explicit Restore(T& place) : place_(place), saved_(place) {}
    Restore(const Restore&) = delete;
    Restore& operator=(const Restore&) = delete;
    ~Restore() { place_ = saved_; }

  private:
    T& place_;
    T saved_;
};

/// The parameter of an argument that means nothing here: `name=`, which the samples give to
/// instructions, among the further keywords (**kwargs) that the functions take.
constexpr int kIgnored = -1;

/// Finds the parameter of every argument of an API call; the order is that of the call.
std::vector<int> bind_api(const ApiTable& api, int index, std::size_t positional,
                          const std::vector<std::string>& names) {
    const ApiParameters& parameters = api.parameters(index);
    const std::string_view function = api[index].name;
    std::vector<int> binding;
    std::vector<bool> taken(parameters.list.size());
    for (std::size_t k = 0; k < positional; ++k) {
        if (k >= parameters.list.size() || parameters.list[k].keyword_only)
            rejected("type_error", fmt::format("{}() takes {} positional arguments, got {}",
                                               function, k, positional))
                .raise();
        binding.push_back(static_cast<int>(k));
        taken[k] = true;
    }
    for (const std::string& name : names) {
        const int k = parameters.find(name);
        if (k < 0 && parameters.mask >= 0 && name == "name") {
            binding.push_back(kIgnored);
            continue;
        }
        if (k < 0) unexpected_keyword(function, name, parameters);
        if (taken[k])
            rejected("type_error",
                     fmt::format("{}() got multiple values for argument '{}'", function, name))
                .raise();
        taken[k] = true;
        binding.push_back(k);
    }
    for (std::size_t k = 0; k < parameters.list.size(); ++k)
        if (!taken[k] && !parameters.list[k].optional)
            rejected("type_error", fmt::format("{}() is missing the argument '{}'", function,
                                               parameters.list[k].name))
                .raise();
    return binding;
}

}  // namespace

Value Evaluator::evaluate_call(const Node& node) {
    const Value callee = evaluate(*node.kids[0]);
    if (node.replay_needs_slice && !(callee.is(Kind::kApi) && callee.integer() == ds_api_))
        refuse_replay();
    if (callee.is(Kind::kApi) && !node.spread)
        return call_api(static_cast<int>(callee.integer()), node);
    if (node.replay_masked) refuse_replay();
    std::vector<Value> arguments;
    Keywords keywords;
    const std::size_t positional = node.kids.size() - node.keywords.size();
    for (std::size_t k = 1; k < positional; ++k) {
        const Node& kid = *node.kids[k];
        if (kid.kind == NodeKind::kStarred) {
            for (Value& item : items_of(evaluate(*kid.kids[0])))
                arguments.push_back(std::move(item));
        } else {
            arguments.push_back(evaluate(kid));
        }
    }
    for (std::size_t k = 0; k < node.keywords.size(); ++k) {
        Value value = evaluate(*node.kids[positional + k]);
        if (node.keywords[k] >= 0) {
            keywords.emplace_back(node.keywords[k], std::move(value));
            continue;
        }
        if (!value.is(Kind::kDict)) rejected("type_error", "** needs a dict").raise();
        for (const auto& [key, item] : value.as<Mapping>().entries) {
            if (!key.is(Kind::kString)) rejected("type_error", "keywords must be strings").raise();
            keywords.emplace_back(code_->names.intern(key.as<String>().text), item);
        }
    }
    line_ = node.line;
    column_ = node.column;
    site_ = node.id;
    return dispatch(callee, arguments, keywords);
}

Value Evaluator::call_api(int index, const Node& node) {
    const ApiEntry& entry = table_[index];
    line_ = node.line;
    column_ = node.column;
    if (node.cached_key != index) {
        const Restore<int> restore(api_);
        api_ = index;
        std::vector<std::string> names;
        for (const int keyword : node.keywords) names.push_back(name(keyword));
        if (entry.handler == nullptr)
            unsupported("unknown_api", fmt::format("{} is not supported", entry.name)).raise();
        node.cached_binding = bind_api(table_, index, node.kids.size() - 1 - names.size(), names);
        node.cached_key = index;
    }
    ApiCall call(*this, index);
    for (std::size_t k = 1; k < node.kids.size(); ++k) {
        Value value = evaluate(*node.kids[k]);
        const int parameter = node.cached_binding[k - 1];
        if (parameter != kIgnored) call.arguments()[parameter] = std::move(value);
    }
    if (node.replay_masked) note_margins(call.arguments()[table_.parameters(index).mask]);
    const Restore<int> restore(api_);
    api_ = index;
    line_ = node.line;
    column_ = node.column;
    site_ = node.id;
    const Restore<const Node*> restore_call(call_);
    call_ = &node;
    if (!in_kernel_ && !entry.name.starts_with("nki."))
        rejected("nki_api_outside_of_nki_kernel",
                 fmt::format("{} is called outside of a kernel", entry.name))
            .raise();
    return run_handler(call);
}

void Evaluator::note_margins(const Value& mask) {
    if (mask.is(Kind::kMask)) {
        const MaskExpr& expr = mask.as<Mask>().expr;
        for (const AffineExpr& term : expr.terms) builder_.note_margin(term.minimum());
        if (expr.never) builder_.note_margin(-1);
    } else {
        builder_.note_margin(mask.is(Kind::kBool) && mask.integer() != 0 ? 0 : -1);
    }
}

Value Evaluator::run_handler(ApiCall& call) {
    try {
        return call.entry().handler(call);
    } catch (TraceFailure& failure) {
        if (failure.finding.operation.empty()) failure.finding.operation = call.entry().name;
        throw;
    }
}

Value Evaluator::dispatch(const Value& callee, std::vector<Value>& arguments, Keywords& keywords) {
    const NestingGuard guard(nesting_);
    refuse_host_module(callee);
    switch (callee.kind()) {
        case Kind::kFunction:
            return call_function(callee.as<Function>(), arguments, keywords);
        case Kind::kBuiltin:
            return call_builtin(static_cast<int>(callee.integer()), arguments, keywords);
        case Kind::kNumpy:
            return call_numpy(static_cast<int>(callee.integer()), arguments, keywords);
        case Kind::kOpaque:
            return callee;  // typing constructs mean nothing here
        case Kind::kMethod:
            return call_method(callee.as<Method>(), arguments, keywords);
        case Kind::kApi: {
            const int index = static_cast<int>(callee.integer());
            const ApiEntry& entry = table_[index];
            const Restore<int> restore(api_);
            const Restore<const Node*> restore_call(call_);
            api_ = index;
            call_ = nullptr;
            if (entry.handler == nullptr)
                unsupported("unknown_api", fmt::format("{} is not supported", entry.name)).raise();
            std::vector<std::string> names;
            for (const auto& [keyword, value] : keywords) names.push_back(name(keyword));
            const std::vector<int> binding = bind_api(table_, index, arguments.size(), names);
            ApiCall call(*this, index);
            for (std::size_t k = 0; k < arguments.size(); ++k)
                call.arguments()[binding[k]] = arguments[k];
            for (std::size_t k = 0; k < keywords.size(); ++k) {
                const int parameter = binding[arguments.size() + k];
                if (parameter != kIgnored) call.arguments()[parameter] = keywords[k].second;
            }
            return run_handler(call);
        }
        case Kind::kDType:
            if (arguments.size() != 1 || !keywords.empty())
                rejected("type_error", "a dtype converts one value").raise();
            return convert(static_cast<DType>(callee.integer()), arguments[0]);
        case Kind::kToken:
            if (callee.integer() == static_cast<int>(TokenId::kDTypeConstructor) &&
                arguments.size() == 1) {
                if (arguments[0].is(Kind::kDType)) return arguments[0];
                if (arguments[0].is(Kind::kString))
                    if (const auto dtype = parse_dtype(arguments[0].as<String>().text))
                        return Value::token(Kind::kDType, static_cast<int>(*dtype));
                rejected("type_error", "not a dtype: " + repr(arguments[0])).raise();
            }
            if (callee.integer() == static_cast<int>(TokenId::kFinfo)) {
                Value made = Value::token(Kind::kToken, static_cast<int>(TokenId::kFinfoValue));
                if (arguments.size() == 1 && arguments[0].is(Kind::kDType))
                    made.set_dtype(static_cast<DType>(arguments[0].integer()));
                return made;
            }
            if (callee.integer() == static_cast<int>(TokenId::kNamedScope)) return callee;
            if (callee.integer() >= static_cast<int>(TokenId::kPartial))
                return call_token(static_cast<TokenId>(callee.integer()), arguments, keywords);
            break;
        case Kind::kPartial: {
            const Partial& partial = callee.as<Partial>();
            std::vector<Value> all = partial.arguments;
            all.insert(all.end(), arguments.begin(), arguments.end());
            Keywords given = partial.keywords;
            for (auto& [keyword, value] : keywords) {
                const int id = keyword;
                const auto same = std::find_if(given.begin(), given.end(),
                                               [&](const auto& k) { return k.first == id; });
                if (same == given.end()) {
                    given.emplace_back(keyword, std::move(value));
                } else {
                    same->second = std::move(value);
                }
            }
            return dispatch(partial.function, all, given);
        }
        default:
            break;
    }
    rejected("type_error", fmt::format("'{}' is not callable", kind_name(callee.kind()))).raise();
}

/// functools.partial and reduce, sizeinbytes of the NKI constants, scalar of nki.typing.
Value Evaluator::call_token(TokenId id, std::vector<Value>& arguments, Keywords& keywords) {
    if (arguments.empty()) rejected("type_error", "an argument is missing").raise();
    switch (id) {
        case TokenId::kPartial: {
            const Ref<Partial> made = heap_.make<Partial>();
            made->function = arguments[0];
            for (std::size_t k = 1; k < arguments.size(); ++k)
                made->arguments.push_back(kept(arguments[k]));
            for (auto& [keyword, value] : keywords)
                made->keywords.emplace_back(keyword, kept(std::move(value)));
            return Value::object(Kind::kPartial, made);
        }
        case TokenId::kReduce: {
            if (arguments.size() < 2) rejected("type_error", "reduce() needs an iterable").raise();
            const std::vector<Value> items = items_of(arguments[1]);
            std::size_t next = 0;
            if (arguments.size() < 3 && items.empty())
                rejected("type_error", "reduce() of an empty sequence").raise();
            Value total = arguments.size() > 2 ? arguments[2] : items[next++];
            for (; next < items.size(); ++next) {
                tick();
                total = call(arguments[0], {total, items[next]});
            }
            return total;
        }
        case TokenId::kSizeInBytes:
            if (!arguments[0].is(Kind::kDType)) rejected("type_error", "not a dtype").raise();
            return Value::integer(size_of(static_cast<DType>(arguments[0].integer())));
        default:
            break;
    }
    if (arguments[0].is(Kind::kTile) || arguments[0].is(Kind::kPending)) return arguments[0];
    unsupported("python_feature", "a condition that the device computes")
        .remedy("loop over a range; values are not known when the kernel is compiled")
        .raise();
}

Value Evaluator::call(const Value& callee, std::vector<Value> arguments) {
    const Restore<int> restore_line(line_);
    const Restore<int> restore_column(column_);
    const Restore<int> restore_site(site_);
    Keywords keywords;
    return dispatch(callee, arguments, keywords);
}

Value Evaluator::call_named(const Value& callee, const std::vector<std::string>& names,
                            std::vector<Value> arguments) {
    const Value* inner = &callee;
    while (inner->is(Kind::kPartial)) inner = &inner->as<Partial>().function;
    bool named = inner->is(Kind::kFunction);
    for (const std::string& wanted : names) {
        if (!named) break;
        const std::vector<ParameterCode>& parameters = inner->as<Function>().code->parameters;
        named = std::any_of(parameters.begin(), parameters.end(),
                            [&](const ParameterCode& p) { return name(p.name) == wanted; });
    }
    if (!named) return call(callee, std::move(arguments));
    const Restore<int> restore_line(line_);
    const Restore<int> restore_column(column_);
    const Restore<int> restore_site(site_);
    Keywords keywords;
    for (std::size_t k = 0; k < names.size(); ++k)
        keywords.emplace_back(code_->names.intern(names[k]), arguments[k]);
    std::vector<Value> none;
    return dispatch(callee, none, keywords);
}

void Evaluator::bind(const Function& function, std::vector<Value>& arguments, Keywords& keywords,
                     Environment& environment) {
    const FunctionCode& code = *function.code;
    std::size_t next = 0;
    for (std::size_t p = 0; p < code.parameters.size(); ++p) {
        const ParameterCode& parameter = code.parameters[p];
        Value& slot = environment.slots[parameter.slot];
        switch (parameter.kind) {
            case ParameterKind::kVarArgs: {
                std::vector<Value> rest(arguments.begin() + static_cast<std::ptrdiff_t>(
                                                                std::min(next, arguments.size())),
                                        arguments.end());
                next = arguments.size();
                slot = tuple(std::move(rest));
                continue;
            }
            case ParameterKind::kKwArgs: {
                const Ref<Mapping> rest = heap_.make<Mapping>();
                for (auto& [keyword, value] : keywords)
                    if (keyword >= 0) set_entry(*rest, string(name(keyword)), std::move(value));
                keywords.clear();
                slot = Value::object(Kind::kDict, rest);
                continue;
            }
            case ParameterKind::kPositional:
                if (next < arguments.size()) slot = arguments[next++];
                break;
            case ParameterKind::kKeywordOnly:
                break;
        }
        for (auto& [keyword, value] : keywords) {
            if (keyword != parameter.name) continue;
            if (!slot.is(Kind::kUnbound))
                rejected("type_error", fmt::format("{}() got multiple values for argument '{}'",
                                                   code.name, name(parameter.name)))
                    .raise();
            slot = std::move(value);
            keyword = -1;
        }
        if (slot.is(Kind::kUnbound)) slot = function.defaults[p];
        if (slot.is(Kind::kUnbound))
            rejected("type_error", fmt::format("{}() is missing the argument '{}'", code.name,
                                               name(parameter.name)))
                .raise();
    }
    if (next < arguments.size())
        rejected("type_error", fmt::format("{}() takes {} positional arguments but {} were given",
                                           code.name, next, arguments.size()))
            .raise();
    for (const auto& [keyword, value] : keywords)
        if (keyword >= 0)
            rejected("type_error", fmt::format("{}() got an unexpected keyword argument '{}'",
                                               code.name, name(keyword)))
                .raise();
}

Value Evaluator::call_function(Function& function, std::vector<Value>& arguments,
                               Keywords& keywords) {
    if (call_depth_ >= options_.limits.recursion)
        exhausted("recursion", fmt::format("calls nest deeper than {}", options_.limits.recursion))
            .limit(options_.limits.recursion)
            .raise();
    refuse_replay();  // a function may do anything
    const FunctionCode& code = *function.code;
    const Ref<Environment> environment = heap_.make<Environment>();
    heap_.grow(*environment, static_cast<std::int64_t>(code.slots) * 16);
    environment->slots.resize(static_cast<std::size_t>(code.slots));
    environment->outer = function.outer;
    for (Value& argument : arguments) argument = kept(std::move(argument));
    for (auto& [keyword, value] : keywords) value = kept(std::move(value));
    bind(function, arguments, keywords, *environment);
    Frame frame;
    frame.environment = environment.get();
    frame.result = Value::none();
    const Restore<Frame*> restore_frame(frame_);
    const Restore<int> restore_depth(call_depth_);
    const Restore<int> restore_api(api_);
    const Restore<const Node*> restore_call(call_);
    frame_ = &frame;
    ++call_depth_;
    api_ = -1;
    call_ = nullptr;
    if (code.expression != nullptr) return evaluate(*code.expression);
    execute(code.body);
    return std::move(frame.result);
}

}  // namespace accelopt::nki::interp
