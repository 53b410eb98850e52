#include <catch2/catch.hpp>

#include "nki/failure.h"
#include "nki/value.h"

namespace accelopt::nki::interp {

TEST_CASE("values share objects and free them with the last reference", "[nki][heap]") {
    Heap heap(1000);
    {
        const Value a = Value::object(Kind::kString, heap.make<String>("abc"));
        const Value b = a;
        CHECK(a.address() == b.address());
        CHECK(b.as<String>().text == "abc");
    }
    // Freed again and again, the budget is never exceeded.
    for (int k = 0; k < 1000; ++k) heap.make<String>("abc");
    SUCCEED();
}

TEST_CASE("the heap refuses what exceeds its budget", "[nki][heap]") {
    Heap heap(1000);
    const Ref<Sequence> list = heap.make<Sequence>();
    CHECK_THROWS_AS(heap.grow(*list, 1000), TraceFailure);
    heap.grow(*list, 100);
    CHECK_THROWS_AS(heap.charge(INT64_MAX), TraceFailure);
}

TEST_CASE("cycles and long chains are freed with the heap", "[nki][heap]") {
    Heap heap(100'000'000);
    const Ref<Sequence> first = heap.make<Sequence>();
    const Ref<Sequence> second = heap.make<Sequence>();
    first->items.push_back(Value::object(Kind::kList, second));
    second->items.push_back(Value::object(Kind::kList, first));
    Value chain = Value::none();
    for (int k = 0; k < 300'000; ++k) {
        const Ref<Sequence> link = heap.make<Sequence>();
        link->items.push_back(std::move(chain));
        chain = Value::object(Kind::kList, link);
    }
    chain = Value::none();
    SUCCEED();
}

}  // namespace accelopt::nki::interp
