#include "trainium/matmul.h"

#include <fmt/format.h>
#include <omp.h>

#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "core/error.h"

namespace accelopt::trainium::execution {

namespace {

using Key = std::array<std::int64_t, 10>;

struct KeyHash {
    std::size_t operator()(const Key& key) const {
        std::uint64_t hash = 0x9E3779B97F4A7C15u;
        for (const std::int64_t value : key) {
            hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xFF51AFD7ED558CCDu;
            hash ^= hash >> 32;
        }
        return static_cast<std::size_t>(hash);
    }
};

dnnl::memory::desc describe(const Matrix& matrix) {
    return dnnl::memory::desc({matrix.rows, matrix.columns}, dnnl::memory::data_type::f32,
                              dnnl::memory::dims{matrix.row_stride, matrix.column_stride});
}

/// One prepared product with its memory objects, whose addresses change from call to call.
class Product {
  public:
    Product(const dnnl::engine& engine, const Matrix& left, const Matrix& right,
            const Matrix& product, bool accumulate)
        : left_(describe(left), engine, nullptr),
          right_(describe(right), engine, nullptr),
          product_(describe(product), engine, nullptr) {
        dnnl::primitive_attr attributes;
        if (accumulate) {
            dnnl::post_ops operations;
            operations.append_sum(1.0f);
            attributes.set_post_ops(operations);
        }
        primitive_ = dnnl::matmul(dnnl::matmul::primitive_desc(
            dnnl::matmul::desc(left_.get_desc(), right_.get_desc(), product_.get_desc()),
            attributes, engine));
        arguments_ = {{DNNL_ARG_SRC, left_}, {DNNL_ARG_WEIGHTS, right_}, {DNNL_ARG_DST, product_}};
    }

    void run(dnnl::stream& stream, float* left, float* right, float* product) {
        left_.set_data_handle(left);
        right_.set_data_handle(right);
        product_.set_data_handle(product);
        primitive_.execute(stream, arguments_);
        stream.wait();
    }

  private:
    dnnl::memory left_;
    dnnl::memory right_;
    dnnl::memory product_;
    dnnl::primitive primitive_;
    std::unordered_map<int, dnnl::memory> arguments_;
};

/// The prepared products of one thread: preparing takes longer than a small product.
struct ProductCache {
    static constexpr std::size_t kCapacity = 512;

    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    std::unordered_map<Key, Product, KeyHash> products;
};

}  // namespace

bool Matrix::regular() const {
    if (column_stride == 1) return rows == 1 || row_stride >= columns;
    if (row_stride == 1) return columns == 1 || column_stride >= rows;
    return false;
}

void multiply_matrices(const Matrix& left, const Matrix& right, const Matrix& product,
                       bool accumulate) {
    thread_local ProductCache cache;
    const Key key{left.rows,           left.columns,       right.columns,
                  left.row_stride,     left.column_stride, right.row_stride,
                  right.column_stride, product.row_stride, product.column_stride,
                  accumulate ? 1 : 0};
    try {
        auto found = cache.products.find(key);
        if (found == cache.products.end()) {
            if (cache.products.size() >= ProductCache::kCapacity) cache.products.clear();
            found =
                cache.products
                    .emplace(std::piecewise_construct, std::forward_as_tuple(key),
                             std::forward_as_tuple(cache.engine, left, right, product, accumulate))
                    .first;
        }
        found->second.run(cache.stream, left.data, right.data, product.data);
    } catch (const dnnl::error& error) {
        throw Error(ErrorSource::kInternal, "onednn",
                    fmt::format("a {} x {} x {} product failed: {}", left.rows, left.columns,
                                right.columns, error.what()));
    }
}

SingleThread::SingleThread() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }

SingleThread::~SingleThread() { omp_set_num_threads(threads_); }

}  // namespace accelopt::trainium::execution
