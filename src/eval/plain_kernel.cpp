#include "eval/plain_kernel.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/hash.h"
#include "core/rng.h"
#include "core/version.h"
#include "eval/evaluator.h"
#include "eval/kernel_run.h"
#include "trainium/number_format.h"

namespace accelopt::eval {

namespace {

using nki::DType;
using protocol::Outcome;
namespace tr = trainium;

/// Whole numbers that inputs of integer dtypes are drawn from: below any extent that a kernel is
/// likely to index with them.
constexpr std::uint64_t kIntegerValues = 8;

/// Standard normal numbers by the Box-Muller transform.
class Normals {
  public:
    explicit Normals(RandomStream& stream) : stream_(stream) {}
    float next() {
        have_spare_ = !have_spare_;
        if (!have_spare_) return spare_;
        const double radius = std::sqrt(-2 * std::log(1 - stream_.uniform()));
        const double angle = 2 * std::numbers::pi * stream_.uniform();
        spare_ = static_cast<float>(radius * std::sin(angle));
        return static_cast<float>(radius * std::cos(angle));
    }

  private:
    RandomStream& stream_;
    bool have_spare_ = false;
    float spare_ = 0;
};

template <typename T>
void put(std::vector<std::byte>& bytes, std::size_t index, T value) {
    std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

void put_float(std::vector<std::byte>& bytes, std::size_t index, DType dtype, float value) {
    switch (dtype) {
        case DType::kBFloat16:
            return put(bytes, index, tr::encode_bfloat16(value));
        case DType::kFloat16:
            return put(bytes, index, tr::encode_float16(value));
        case DType::kFloat8E4M3:
        case DType::kFloat8E5M2:
            return put(bytes, index, tr::encode_float8(dtype, value));
        default:
            return put(bytes, index, tr::round_to(dtype, value));
    }
}

/// A row-major array of the tensor's dtype, seeded by the tensor's name.
std::vector<std::byte> draw(const nki::TensorArgument& tensor, const std::string& purpose) {
    std::size_t count = 1;
    for (const std::int64_t extent : tensor.shape) count *= static_cast<std::size_t>(extent);
    std::vector<std::byte> bytes(count * static_cast<std::size_t>(size_of(tensor.dtype)));
    RandomStream stream = RandomStream::keyed(0, purpose);
    Normals normals(stream);
    for (std::size_t i = 0; i < count; ++i) {
        if (!tr::is_integer(tensor.dtype)) {
            put_float(bytes, i, tensor.dtype, normals.next());
            continue;
        }
        const std::uint64_t limit = tensor.dtype == DType::kBool ? 2 : kIntegerValues;
        const auto value = static_cast<std::uint32_t>(stream.below(limit));
        switch (size_of(tensor.dtype)) {
            case 1:
                put(bytes, i, static_cast<std::uint8_t>(value));
                break;
            case 2:
                put(bytes, i, static_cast<std::uint16_t>(value));
                break;
            default:
                put(bytes, i, value);
        }
    }
    return bytes;
}

float element(const tr::OutputArray& output, std::size_t index) {
    const auto get = [&]<typename T>(T) {
        T value;
        std::memcpy(&value, output.bytes.data() + index * sizeof(T), sizeof(T));
        return value;
    };
    switch (output.dtype) {
        case DType::kFloat32:
        case DType::kTFloat32:
            return get(float{});
        case DType::kBFloat16:
            return tr::decode_bfloat16(get(std::uint16_t{}));
        case DType::kFloat16:
            return tr::decode_float16(get(std::uint16_t{}));
        case DType::kFloat8E4M3:
        case DType::kFloat8E5M2:
            return tr::decode_float8(output.dtype, get(std::uint8_t{}));
        default:
            return 0;  // integers are finite
    }
}

/// A sentence about the first fault of an output: unwritten or not finite elements; "" for none.
std::pair<std::string, std::string> fault_of(const tr::OutputArray& output) {
    const std::size_t count = output.bytes.size() / static_cast<std::size_t>(size_of(output.dtype));
    const std::string of = " of " + std::to_string(count) + " elements ";
    if (output.unwritten_elements > 0) {
        return {"unwritten_output",
                std::to_string(output.unwritten_elements) + of + "were never stored"};
    }
    std::size_t bad = 0;
    for (std::size_t i = 0; i < count; ++i) bad += std::isfinite(element(output, i)) ? 0 : 1;
    if (bad > 0) return {"nonfinite", std::to_string(bad) + of + "are NaN or infinite"};
    return {};
}

bool run_values(KernelRun& run, const PlainKernelRequest& request,
                protocol::EvaluationReply& reply) {
    std::vector<std::vector<std::byte>> arrays;
    for (std::size_t i = 0; i < request.arguments.size(); ++i) {
        const auto* tensor = std::get_if<nki::TensorArgument>(&request.arguments[i]);
        if (tensor == nullptr) continue;
        const std::string name = i < request.names.size() ? request.names[i] : std::to_string(i);
        arrays.push_back(draw(*tensor, "plain kernel/" + request.secret + "/" + name));
    }
    std::vector<tr::InputArray> inputs;
    for (const auto& array : arrays) {
        inputs.push_back({array.data(), static_cast<std::int64_t>(array.size())});
    }
    const auto outputs = run.execute(inputs);
    if (!outputs) return false;
    for (std::size_t i = 0; i < outputs->size(); ++i) {
        const auto [reason, message] = fault_of((*outputs)[i]);
        protocol::Correctness row;
        row.output = static_cast<int>(i);
        row.rule = "none";
        row.ok = reason.empty();
        reply.correctness.push_back(row);
        if (reason.empty()) continue;
        run.end(Outcome::kIncorrect, reason, "output " + std::to_string(i) + ": " + message);
        return false;
    }
    add_note(reply, "not_verified",
             "without a problem there is no reference: the values were computed and are finite "
             "and complete, but nothing says that they are right");
    return true;
}

}  // namespace

protocol::EvaluationReply evaluate_plain_kernel(const PlainKernelRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    const tr::Machine machine = load_machine(request.target);
    protocol::EvaluationReply reply;
    reply.id = request.id;
    reply.problem = "(none)";
    reply.target = request.target;
    reply.source_sha256 = sha256_hex(request.source);
    reply.accelopt_version = kVersion;
    reply.machine = machine.name + "@" + machine.hash;

    KernelUnderTest kernel;
    kernel.source = request.source;
    kernel.entry = request.entry;
    kernel.grid = request.grid;
    kernel.names = request.names;
    kernel.arguments = request.arguments;
    kernel.limits = request.limits;
    kernel.profile_rows = request.profile_rows;
    kernel.observer = request.observer;
    KernelRun run(kernel, machine, reply);
    if (run.check()) {
        run.predict();
        if (!request.values || run_values(run, request, reply)) {
            reply.outcome = Outcome::kOk;
            reply.reason.clear();
        }
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    reply.cost.wall_s = spent.count();
    return reply;
}

}  // namespace accelopt::eval
