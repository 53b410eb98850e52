#include "eval/suite.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "core/error.h"
#include "eval/problem.h"
#include "eval/suite_evaluator.h"
#include "scratch_folder.h"

using namespace accelopt;
using eval::SuiteEvaluator;
using eval::SuiteRequest;
using eval::SuiteSeeds;
using protocol::EvaluationReply;
using protocol::Outcome;

namespace {

const char* const kSummary = R"({
  "affine": {"seed": "./seeds/affine.yaml", "cases": {"0": {"values": {"M": 256, "N": 32},
    "impls": [{"task": "./reference/affine_0.py", "kernel": "./kernels/affine_0.py"}]}}},
  "sums": {"cases": {"1": {"values": {"M": 128, "N": 32},
    "impls": [{"task": "./reference/sums_1.py", "kernel": "./kernels/sums_1.py"}]}}}
})";

/// y = x + w * s; the kernel sees x in tiles, and the scalar in the middle.
const char* const kAffineReference = R"(import numpy as np
M = 256
N = 32

def get_inputs():
    x = np.random.normal(loc=0, scale=1.0, size=(M, N)).astype(np.float32)
    w = np.random.randn(M, N).astype(np.float32)
    return [x, 0.5, w]

def forward(x, s, w):
    return x + w * s

def transform_to_nki_inputs(inputs):
    return [np.reshape(inputs[0], (2, 128, 32)), inputs[1], np.reshape(inputs[2], (2, 128, 32))]

def transform_nki_outputs(k_res, ref):
    if not isinstance(k_res, tuple):
        k_res = (k_res,)
    return [np.reshape(k_res[0], ref.shape)]
)";

const char* const kAffineKernel = R"(import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def kernel(x, s, w):
    y = nl.ndarray((2, 128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        a = nl.load(x[i])
        b = nl.load(w[i])
        nl.store(y[i], value=nl.add(a, nl.multiply(b, s)))
    return y
)";

/// Two outputs, no transforms.
const char* const kSumsReference = R"(import numpy as np

def get_inputs():
    return [np.random.uniform(-1, 1, size=(128, 32)).astype(np.float32)]

def forward(x):
    return x.sum(axis=1, keepdims=True), x + x
)";

const char* const kSumsKernel = R"(import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def kernel(x):
    total = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    double = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    nl.store(total, value=nl.sum(t, axis=[1], keepdims=True))
    nl.store(double, value=nl.add(t, t))
    return total, double
)";

/// The small suite in the published layout, one file replaced.
class SmallSuite {
  public:
    explicit SmallSuite(const std::string& file = "", const std::string& text = "") {
        write("summary.json", kSummary);
        write("reference/affine_0.py", kAffineReference);
        write("kernels/affine_0.py", kAffineKernel);
        write("reference/sums_1.py", kSumsReference);
        write("kernels/sums_1.py", kSumsKernel);
        if (!file.empty()) write(file, text);
    }
    void write(const std::string& file, const std::string& text) {
        folder_.write("NKIBench/" + file, text);
    }
    void remove(const std::string& file) {
        std::filesystem::remove(folder_.path() + "/NKIBench/" + file);
    }
    std::string path() const { return folder_.path(); }

    EvaluationReply baseline(const std::string& id, SuiteRequest request = {}) const {
        const eval::Suite suite = eval::load_suite(path());
        return SuiteEvaluator("trn1").evaluate_baseline(eval::find_problem(suite, id), request);
    }
    EvaluationReply evaluate(const std::string& id, const std::string& source,
                             SuiteRequest request = {}) const {
        const eval::Suite suite = eval::load_suite(path());
        request.source = source;
        return SuiteEvaluator("trn1").evaluate(eval::find_problem(suite, id), request);
    }

  private:
    ScratchFolder folder_;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

std::string load_fault(const std::string& path) {
    try {
        eval::load_suite(path);
    } catch (const Error& error) {
        CHECK(error.source() == ErrorSource::kUser);
        return error.what();
    }
    return "";
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// The first error of a reply: message and remedy.
std::string error_of(const EvaluationReply& reply) {
    for (const auto& diagnostic : reply.diagnostics) {
        if (diagnostic.severity == "error") return diagnostic.message + " | " + diagnostic.remedy;
    }
    return "";
}

}  // namespace

TEST_CASE("a suite is read from its folder, its parent or its summary") {
    const SmallSuite small;
    for (const char* tail : {"", "/NKIBench", "/NKIBench/", "/NKIBench/summary.json"}) {
        const eval::Suite suite = eval::load_suite(small.path() + tail);
        REQUIRE(suite.problems.size() == 2);
        CHECK(suite.problems[0].id == "affine");
        CHECK(suite.problems[0].values ==
              std::vector<std::pair<std::string, std::int64_t>>{{"M", 256}, {"N", 32}});
        CHECK(suite.problems[1].id == "sums");
    }
}

TEST_CASE("problems with several cases or kernels get ids of their own") {
    const SmallSuite small("summary.json", R"({"a": {"cases": {
        "0": {"values": {}, "impls": [{"task": "t", "kernel": "k"}, {"task": "t", "kernel": "l"}]},
        "4": {"values": {}, "impls": [{"task": "t", "kernel": "k"}]}}}})");
    const eval::Suite suite = eval::load_suite(small.path());
    REQUIRE(suite.problems.size() == 3);
    CHECK(suite.problems[1].id == "a:0:1");
    CHECK(suite.problems[2].id == "a:4:0");
    CHECK(suite.problems[2].name == "a");
}

TEST_CASE("a missing or malformed summary is named with the remedy") {
    CHECK(contains(load_fault("/nonexistent"), "/nonexistent: there is no such folder"));
    const ScratchFolder empty;
    CHECK(contains(load_fault(empty.path()), "no summary.json; --suite takes a checkout"));
    const std::pair<const char*, const char*> cases[] = {
        {"{", "not JSON"},
        {"[]", "no object"},
        {"{}", "names no problem"},
        {R"({"a": {}})", "problem 'a' has no \"cases\""},
        {R"({"a": 3})", "problem 'a' has no \"cases\""},
        {R"({"a": {"cases": []}})", "the cases of 'a'"},
        {R"({"a": {"cases": {"0": {}}}})", "case '0' of 'a' has no \"impls\""},
        {R"({"a": {"cases": {"0": {"impls": {}}}}})", "impls is no list"},
        {R"({"a": {"cases": {"0": {"impls": [{"task": "t"}]}}}})", "no \"kernel\""},
        {R"({"a": {"cases": {"0": {"impls": [{"task": 1, "kernel": "k"}]}}}})", "is no path"},
    };
    for (const auto& [text, expected] : cases) {
        const SmallSuite small("summary.json", text);
        const std::string message = load_fault(small.path());
        INFO(text << ": " << message);
        CHECK(contains(message, expected));
        CHECK(contains(message, "summary.json: "));
    }
}

TEST_CASE("an unknown problem of a suite is answered with a suggestion") {
    const SmallSuite small;
    const eval::Suite suite = eval::load_suite(small.path());
    CHECK_THROWS_WITH(eval::find_problem(suite, "afine"), Catch::Contains("did you mean 'affine'"));
}

TEST_CASE("the suite's own kernels pass on the published seeds by the published rule") {
    const SmallSuite small;
    for (const char* id : {"affine", "sums"}) {
        const EvaluationReply reply = small.baseline(id);
        INFO(to_json(reply));
        REQUIRE(reply.outcome == Outcome::kOk);
        CHECK(reply.tier == "values");
        REQUIRE(reply.profile.has_value());
        CHECK(reply.profile->latency.value_or(0) > 0);
        CHECK_FALSE(reply.profile->lower_bound_ms.has_value());
        CHECK_FALSE(reply.measured.has_value());
        const std::size_t outputs = std::string(id) == "sums" ? 2 : 1;
        REQUIRE(reply.correctness.size() == 5 * outputs);
        const int seeds[] = {0, 21, 42, 63, 84};
        for (std::size_t i = 0; i < reply.correctness.size(); ++i) {
            CHECK(reply.correctness[i].seed == seeds[i / outputs]);
            CHECK(reply.correctness[i].rule == "published");
            CHECK(reply.correctness[i].rel_l2.value_or(1) < 1e-6);
        }
        CHECK(reply.diagnostics.at(0).code == "rule_published");
    }
}

TEST_CASE("own seeds are derived and without values nothing is drawn") {
    const SmallSuite small;
    SuiteRequest own;
    own.seeds = SuiteSeeds::kOwn;
    const EvaluationReply reply = small.baseline("affine", own);
    REQUIRE(reply.correctness.size() == 5);
    CHECK(reply.correctness[4].seed == 4);
    SuiteRequest quick;
    quick.values = false;
    const EvaluationReply timing = small.baseline("affine", quick);
    CHECK(timing.outcome == Outcome::kOk);
    CHECK(timing.tier == "timing");
    CHECK(timing.correctness.empty());
}

TEST_CASE("by rule conditioned a suite's kernel is judged as one of ours, on our stress sets") {
    // The arguments of our mamba; the suite's own forward is not asked.
    const char* const reference = R"(import numpy as np

def get_inputs():
    shapes = [(256, 7168), (256, 7168), (256, 16), (16, 7168), (16, 7168)]
    return [np.random.randn(*shape).astype(np.float32) for shape in shapes]

def forward(*inputs):
    raise NotImplementedError
)";
    SmallSuite small("summary.json", R"({
  "affine": {"cases": {"0": {"values": {},
    "impls": [{"task": "./reference/affine_0.py", "kernel": "./kernels/affine_0.py"}]}}},
  "mamba": {"cases": {"0": {"values": {},
    "impls": [{"task": "./reference/mamba_0.py", "kernel": "./kernels/mamba_0.py"}]}}}})");
    small.write("reference/mamba_0.py", reference);
    SuiteRequest request;
    request.rule = "conditioned";
    SECTION("where no problem of ours has the name and the arguments it is refused") {
        const EvaluationReply reply = small.baseline("affine", request);
        CHECK(reply.outcome == Outcome::kEvaluatorError);
        CHECK(reply.reason == "bad_request");
        CHECK(contains(error_of(reply), "'affine' and the arguments of"));
    }
    SECTION("values are compared with our reference") {
        const std::string good = eval::load_problem("mamba", "full").baseline_source;
        request.values = false;
        const EvaluationReply timed = small.evaluate("mamba", good, request);
        INFO(to_json(timed));
        CHECK(timed.outcome == Outcome::kOk);
        CHECK(timed.problem == "mamba");
        CHECK(timed.rule == "conditioned");
        // Measured figures belong to our baseline and to the suite's own kernel.
        const std::string other = replaced(good, "nl.exp", "nl.sin");
        CHECK_FALSE(small.evaluate("mamba", other, request).measured.has_value());
        small.write("kernels/mamba_0.py", other);
        CHECK(small.baseline("mamba", request).measured.has_value());
        request.values = true;
        const EvaluationReply wrong = small.evaluate("mamba", other, request);
        INFO(to_json(wrong));
        CHECK(wrong.outcome == Outcome::kIncorrect);
        REQUIRE(wrong.correctness.size() == 1);
        CHECK(wrong.correctness[0].max_conditioned.has_value());
    }
}

TEST_CASE("wrong kernels of a suite get the outcome of their fault") {
    const SmallSuite small;
    const std::string good = kAffineKernel;
    const auto outcome = [&](const std::string& source) {
        const EvaluationReply reply = small.evaluate("affine", source);
        return std::string(to_string(reply.outcome)) + "/" + reply.reason;
    };
    CHECK(outcome(good) == "ok/");
    CHECK(outcome(replaced(good, "nl.add(", "nl.subtract(")) == "incorrect/value");
    CHECK(outcome(replaced(good, "affine_range(2)", "affine_range(1)")) ==
          "incorrect/unwritten_output");
    CHECK(outcome(replaced(good, "nl.multiply(b, s)", "nl.log(b)")) == "incorrect/nonfinite");
    CHECK(outcome(replaced(good, "dtype=x.dtype", "dtype=nl.bfloat16")) ==
          "rejected/precision_ban");
    CHECK(outcome(replaced(good, "dtype=x.dtype", "dtype=nl.int32")) == "rejected/output_type");
    CHECK(outcome(replaced(good, "return y", "return x")) == "rejected/output_alias");
    CHECK(outcome(replaced(good, "(2, 128, 32), dtype", "(3, 128, 32), dtype")) ==
          "rejected/output_shape");
    CHECK(outcome("def kernel(") == "syntax_error/'(' was never closed");
}

TEST_CASE("faults of a reference name the file, the line and the remedy") {
    const std::string good = kAffineReference;
    struct Fault {
        std::string text;
        const char* expected;
    };
    const Fault faults[] = {
        {replaced(good, "def get_inputs", "def get_input"), "the file defines no get_inputs()"},
        {replaced(good, "def forward", "def backward"), "the file defines no forward()"},
        {"import nothing_of_this_name\n", "ModuleNotFoundError"},
        {"def forward(:\n", "SyntaxError"},
        {replaced(good, "    return x + w * s", "    return x + nowhere"),
         "affine_0.py:11: NameError"},
        {replaced(good, "    return [np.reshape(inputs[0]", "    return [np.reshape(inputs[7]"),
         "IndexError"},
        {replaced(good, "(M, N)).astype(np.float32)", "(M, N))"), "dtype float64"},
        {replaced(good, "return [x, 0.5, w]", "return [x, {}, w]"), "of type dict"},
        {replaced(good, "return [x, 0.5, w]", "return [x, float(x[0, 0]), w]"),
         "another kind, shape or value"},
    };
    for (const Fault& fault : faults) {
        const SmallSuite small("reference/affine_0.py", fault.text);
        const EvaluationReply reply = small.baseline("affine");
        INFO(to_json(reply));
        CHECK(reply.outcome == Outcome::kEvaluatorError);
        CHECK(reply.reason == "reference_failed");
        CHECK(contains(error_of(reply), fault.expected));
        CHECK(contains(error_of(reply), "affine_0.py"));
        CHECK(contains(error_of(reply), "| a reference defines get_inputs()"));
        // The rest of the suite is not touched by it.
        CHECK(small.baseline("sums").outcome == Outcome::kOk);
    }
}

TEST_CASE("a missing kernel or reference file is a fault of the checkout") {
    for (const char* file : {"kernels/affine_0.py", "reference/affine_0.py"}) {
        SmallSuite small;
        small.remove(file);
        const EvaluationReply reply = small.baseline("affine");
        CHECK(reply.outcome == Outcome::kEvaluatorError);
        CHECK(reply.reason == "bad_request");
        CHECK(contains(error_of(reply), file));
        CHECK(contains(error_of(reply), "complete the checkout"));
    }
}

TEST_CASE("learning the arguments leaves numpy's global draws as they were") {
    // Two suites after each other: the second would see zeros if the first had left them behind.
    const SmallSuite small;
    SuiteRequest quick;
    quick.values = false;
    CHECK(small.baseline("affine", quick).outcome == Outcome::kOk);
    const std::string zero_kernel =
        replaced(kAffineKernel, "nl.add(a, nl.multiply(b, s))", "nl.multiply(a, 0.0)");
    CHECK(small.evaluate("affine", zero_kernel).reason == "value");
}

TEST_CASE("a reference that cannot do with zeros is run as it is") {
    const std::string text = replaced(kAffineReference, "    return [x, 0.5, w]",
                                      "    assert np.abs(x).max() > 1\n    return [x, 0.5, w]");
    const SmallSuite small("reference/affine_0.py", text);
    CHECK(small.baseline("affine").outcome == Outcome::kOk);
}

TEST_CASE("a problem that is one of ours shows our figures") {
    // silu at the published shape, whose kernel here does one row block only: legality and timing.
    SmallSuite small("summary.json", R"({"silu": {"cases": {"0": {"values": {},
        "impls": [{"task": "reference/silu.py", "kernel": "kernels/silu.py"}]}}}})");
    small.write("reference/silu.py", R"(import numpy as np
def get_inputs():
    return [np.random.normal(size=(4096, 7168)).astype(np.float32)]
def forward(x):
    return x / (1 + np.exp(-x))
def transform_to_nki_inputs(inputs):
    return [np.reshape(inputs[0], (128, 32, 7168))]
)");
    small.write("kernels/silu.py", R"(import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(32):
        nl.store(y[:, i, :], value=nl.silu(nl.load(x[:, i, :])))
    return y
)");
    SuiteRequest quick;
    quick.values = false;
    const EvaluationReply reply = small.baseline("silu", quick);
    INFO(to_json(reply));
    REQUIRE(reply.outcome == Outcome::kOk);
    REQUIRE(reply.measured.has_value());
    CHECK(reply.measured->latency.value_or(0) == Approx(1.333232));
    CHECK(reply.profile->lower_bound_ms.has_value());
    CHECK(reply.profile->percent_of_peak.value_or(0) > 0.1);
    // Measured figures are the suite's own kernel's.
    SuiteRequest other = quick;
    const EvaluationReply changed = small.evaluate(
        "silu",
        replaced("import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n@nki.jit\n"
                 "def kernel(x):\n    y = nl.ndarray(x.shape, dtype=x.dtype, "
                 "buffer=nl.shared_hbm)\n    for i in nl.affine_range(32):\n"
                 "        nl.store(y[:, i, :], value=nl.silu(nl.load(x[:, i, :])))\n"
                 "    return y\n",
                 "nl.affine_range", "nl.sequential_range"),
        other);
    CHECK_FALSE(changed.measured.has_value());
}
