#include <algorithm>
#include <catch2/catch.hpp>

#include "unit/trainium/execute_builder.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::AluOp;
using nki::Buffer;
using nki::DType;
using nki::Opcode;
using nki::View;

namespace {

Machine trn1() {
    Machine machine;
    machine.partitions = 128;
    machine.sbuf_partition_bytes = 192 * 1024;
    machine.psum_partition_bytes = 16 * 1024;
    machine.psum_bank_bytes = 2 * 1024;
    return machine;
}

std::string verdict(const ProgramBuilder& builder) {
    const auto finding = check_legality(builder.program, trn1());
    return finding ? finding->outcome + "/" + finding->code : "ok";
}

nki::MaskTerm columns_below(std::int64_t n) {
    nki::MaskTerm term;
    term.constant = n - 1;
    term.coefficients[1] = -1;
    return term;
}

}  // namespace

TEST_CASE("a kernel that writes what it reads is legal") {
    ProgramBuilder b;
    const auto in = b.input({128, 512});
    const auto tile = b.tile(Buffer::kSbuf, 128, 512);
    const auto out = b.output({128, 512});
    b.load(tile, in);
    b.store(out, tile);
    REQUIRE(verdict(b) == "ok");
}

TEST_CASE("reading a tile that nothing wrote is rejected with its place") {
    ProgramBuilder b;
    const auto tile = b.tile(Buffer::kSbuf, 128, 512);
    const auto out = b.output({128, 512});
    b.store(out, tile);
    b.program.api_names = {"nl.store"};
    b.program.operations[0].api = 0;
    const auto finding = check_legality(b.program, trn1());
    REQUIRE(finding);
    REQUIRE(finding->code == "uninitialized_read");
    REQUIRE(finding->outcome == "rejected");
    REQUIRE(finding->line == b.program.operations[0].line);
    REQUIRE(finding->column == 4);
    REQUIRE(finding->operation == "nl.store");
    REQUIRE(finding->message.find("tile0") != std::string::npos);
}

TEST_CASE("one unwritten element is enough to reject, none is legal") {
    for (const std::int64_t columns : {511, 512}) {
        ProgramBuilder b;
        const auto in = b.input({128, 512});
        const auto tile = b.tile(Buffer::kSbuf, 128, 512);
        const auto out = b.output({128, 512});
        b.add(Opcode::kLoad, b.part(tile, 0, 128, 0, columns), {b.part(in, 0, 128, 0, columns)});
        b.store(out, tile);
        REQUIRE(verdict(b) == (columns == 512 ? "ok" : "rejected/uninitialized_read"));
    }
}

TEST_CASE("a masked write counts for its active elements only") {
    for (const std::int64_t read : {300, 301}) {
        ProgramBuilder b;
        const auto in = b.input({128, 512});
        const auto tile = b.tile(Buffer::kSbuf, 128, 512);
        const auto out = b.output({128, 512});
        b.load(tile, in).mask.push_back(columns_below(300));
        b.store(out, tile).mask.push_back(columns_below(read));
        REQUIRE(verdict(b) == (read == 300 ? "ok" : "rejected/uninitialized_read"));
    }
}

TEST_CASE("masks across axes are followed exactly") {
    // Writes the lower triangle, reads it, then reads one element more.
    for (const std::int64_t extra : {0, 1}) {
        ProgramBuilder b;
        const auto in = b.input({64, 64});
        const auto tile = b.tile(Buffer::kSbuf, 64, 64);
        const auto out = b.output({64, 64});
        nki::MaskTerm triangle;
        triangle.coefficients[0] = 1;
        triangle.coefficients[1] = -1;
        b.load(tile, in).mask.push_back(triangle);
        triangle.constant = extra;
        b.store(out, tile).mask.push_back(triangle);
        REQUIRE(verdict(b) == (extra == 0 ? "ok" : "rejected/uninitialized_read"));
    }
}

TEST_CASE("scale, bias and scalar operands are reads too") {
    for (int k = 0; k < 5; ++k) {
        ProgramBuilder b;
        const auto in = b.input({128, 8});
        const auto tile = b.tile(Buffer::kSbuf, 128, 8);
        const auto vector = b.tile(Buffer::kSbuf, 128, 1);
        const auto out = b.output({128, 8});
        b.load(tile, in);
        if (k == 4) b.memset(b.whole(vector), 1);
        auto& operation = b.add(k < 2 ? Opcode::kActivation : Opcode::kTensorScalar, b.whole(tile),
                                {b.whole(tile)});
        nki::ScalarOperand operand;
        operand.vector = true;
        operand.view = b.whole(vector);
        (k == 0   ? operation.scale
         : k == 1 ? operation.bias
         : k == 2 ? operation.operand0
                  : operation.operand1) = operand;
        b.store(out, tile);
        REQUIRE(verdict(b) == (k == 4 ? "ok" : "rejected/uninitialized_read"));
    }
}

TEST_CASE("accumulating into PSUM needs zeros or a first overwrite") {
    for (int k = 0; k < 3; ++k) {
        ProgramBuilder b;
        const auto in = b.input({128, 128});
        const auto tile = b.tile(Buffer::kSbuf, 128, 128);
        const auto psum = b.tile(Buffer::kPsum, 128, 128);
        const auto out = b.output({128, 128});
        b.load(tile, in);
        if (k == 1) b.memset(b.whole(psum), 0).implicit = true;
        auto& operation = b.add(Opcode::kMatmul, b.whole(psum), {b.whole(tile), b.whole(tile)});
        operation.accumulate = k != 2;
        b.store(out, psum);
        REQUIRE(verdict(b) == (k == 0 ? "rejected/uninitialized_read" : "ok"));
    }
}

TEST_CASE("HBM scratch has to be written before it is read, element by element") {
    for (const std::int64_t rows : {255, 256}) {
        ProgramBuilder b;
        const auto in = b.input({256, 64});
        const auto scratch = b.scratch({256, 64});
        const auto out = b.output({256, 64});
        b.add(Opcode::kDmaCopy, b.part(scratch, 0, rows, 0, 64), {b.part(in, 0, rows, 0, 64)});
        b.add(Opcode::kDmaCopy, b.whole(out), {b.whole(scratch)});
        REQUIRE(verdict(b) == (rows == 256 ? "ok" : "rejected/uninitialized_read"));
    }
}

TEST_CASE("an output that is never stored to is rejected, a partly stored one is not") {
    for (const bool stored : {false, true}) {
        ProgramBuilder b;
        const auto in = b.input({128, 8});
        const auto tile = b.tile(Buffer::kSbuf, 128, 8);
        const auto out = b.output({128, 8});
        const auto other = b.output({128, 8});
        b.load(tile, in);
        b.store(out, tile);
        if (stored) b.add(Opcode::kStore, b.part(other, 0, 1, 0, 1), {b.part(tile, 0, 1, 0, 1)});
        REQUIRE(verdict(b) == (stored ? "ok" : "rejected/tensor_output_not_written_to"));
    }
}

TEST_CASE("a store that a mask empties is no store") {
    ProgramBuilder b;
    const auto in = b.input({128, 8});
    const auto tile = b.tile(Buffer::kSbuf, 128, 8);
    const auto out = b.output({128, 8});
    b.load(tile, in);
    b.store(out, tile).mask.push_back(columns_below(0));
    REQUIRE(verdict(b) == "rejected/tensor_output_not_written_to");
}

namespace {

/// `live` PSUM blocks of `columns` floats, all written before the first is read.
ProgramBuilder psum_program(std::int64_t live, std::int64_t columns) {
    ProgramBuilder b;
    const auto in = b.input({128, columns});
    const auto tile = b.tile(Buffer::kSbuf, 128, columns);
    const auto psum = b.tile(Buffer::kPsum, 128, columns, DType::kFloat32, live);
    const auto out = b.output({128, columns});
    b.load(tile, in);
    for (std::int64_t k = 0; k < live; ++k) {
        b.add(Opcode::kCopy, b.whole(psum, k), {b.whole(tile)});
    }
    for (std::int64_t k = 0; k < live; ++k) {
        b.add(Opcode::kStore, b.whole(out), {b.whole(psum, k)});
    }
    return b;
}

}  // namespace

TEST_CASE("eight PSUM banks are there, nine are not") {
    REQUIRE(verdict(psum_program(8, 512)) == "ok");
    REQUIRE(verdict(psum_program(9, 512)) == "rejected/psum_capacity");
    // A tile takes whole banks, however small; one float more takes another bank.
    REQUIRE(verdict(psum_program(9, 1)) == "rejected/psum_capacity");
    REQUIRE(verdict(psum_program(4, 513)) == "ok");
    REQUIRE(verdict(psum_program(5, 513)) == "rejected/psum_capacity");
}

TEST_CASE("the report of PSUM lists the tensors by size") {
    ProgramBuilder b = psum_program(6, 512);
    const auto big = b.tile(Buffer::kPsum, 128, 3 * 512);
    b.program.tensors[big].name = "big";
    auto& operations = b.program.operations;
    // Written after all others, read after them: alive together with all six.
    const nki::Operation fill = [&] {
        b.memset(b.whole(big), 1);
        const nki::Operation operation = operations.back();
        operations.pop_back();
        return operation;
    }();
    operations.push_back(fill);
    std::rotate(operations.begin() + 7, operations.end() - 1, operations.end());
    b.add(Opcode::kStore, b.part(0, 0, 0, 0, 0), {});
    operations.pop_back();
    const auto out = b.output({128, 3 * 512});
    b.store(out, big);
    const auto finding = check_legality(b.program, trn1());
    REQUIRE(finding);
    REQUIRE(finding->code == "psum_capacity");
    REQUIRE(finding->limit == 8);
    const auto six = finding->message.find("tile2");
    const auto three = finding->message.find("big");
    REQUIRE(six != std::string::npos);
    REQUIRE(three != std::string::npos);
    REQUIRE(six < three);
}

TEST_CASE("PSUM tiles that are read at once may follow each other without end") {
    ProgramBuilder b;
    const auto in = b.input({128, 512});
    const auto tile = b.tile(Buffer::kSbuf, 128, 512);
    const auto psum = b.tile(Buffer::kPsum, 128, 512, DType::kFloat32, 100);
    const auto out = b.output({128, 512});
    b.load(tile, in);
    for (std::int64_t k = 0; k < 100; ++k) {
        b.add(Opcode::kCopy, b.whole(psum, k), {b.whole(tile)});
        b.add(Opcode::kStore, b.whole(out), {b.whole(psum, k)});
    }
    REQUIRE(verdict(b) == "ok");
}

TEST_CASE("implied zeros take no PSUM before the first product, nor do unread tiles") {
    for (const bool implicit : {true, false}) {
        ProgramBuilder b;
        const auto in = b.input({128, 128});
        const auto tile = b.tile(Buffer::kSbuf, 128, 128);
        const auto psum = b.tile(Buffer::kPsum, 128, 128, DType::kFloat32, 16);
        const auto unread = b.tile(Buffer::kPsum, 128, 128, DType::kFloat32, 16);
        const auto out = b.output({128, 128});
        b.load(tile, in);
        for (std::int64_t k = 0; k < 16; ++k) {
            b.memset(b.whole(psum, k), 0).implicit = implicit;
            b.memset(b.whole(unread, k), 0);
        }
        for (std::int64_t k = 0; k < 16; ++k) {
            b.add(Opcode::kMatmul, b.whole(psum, k), {b.whole(tile), b.whole(tile)}).accumulate =
                true;
            b.add(Opcode::kStore, b.whole(out), {b.whole(psum, k)});
        }
        REQUIRE(verdict(b) == (implicit ? "ok" : "rejected/psum_capacity"));
    }
}

TEST_CASE("a PSUM tile that is overwritten as a whole starts a new life") {
    for (const bool accumulate : {false, true}) {
        ProgramBuilder b;
        const auto in = b.input({128, 128});
        const auto tile = b.tile(Buffer::kSbuf, 128, 128);
        const auto psum = b.tile(Buffer::kPsum, 128, 128, DType::kFloat32, 9);
        const auto out = b.output({128, 128});
        b.load(tile, in);
        for (int round = 0; round < 2; ++round) {
            for (std::int64_t k = 0; k < 9; ++k) {
                auto& product =
                    b.add(Opcode::kMatmul, b.whole(psum, k), {b.whole(tile), b.whole(tile)});
                product.accumulate = accumulate && round > 0;
                b.add(Opcode::kStore, b.whole(out), {b.whole(psum, k)});
            }
        }
        REQUIRE(verdict(b) == (accumulate ? "rejected/psum_capacity" : "ok"));
    }
}

TEST_CASE("one tile larger than SBUF is rejected, one that just fits is not") {
    for (const std::int64_t columns : {48 * 1024, 48 * 1024 + 1}) {
        ProgramBuilder b;
        const auto tile = b.tile(Buffer::kSbuf, 1, columns);
        const auto out = b.output({1, columns});
        b.memset(b.whole(tile), 1);
        b.store(out, tile);
        REQUIRE(verdict(b) == (columns == 48 * 1024 ? "ok" : "rejected/sbuf_capacity"));
    }
}

TEST_CASE("tensors of absurdly many blocks cost only the blocks that are used") {
    ProgramBuilder b;
    const auto in = b.input({1, 1});
    const auto tile = b.tile(Buffer::kSbuf, 1, 1, DType::kFloat32, 200'000'000'000);
    const auto out = b.output({1, 1});
    const View far = b.whole(tile, 199'999'999'999);
    b.add(Opcode::kLoad, far, {b.whole(in)});
    b.add(Opcode::kStore, b.whole(out), {far});
    REQUIRE(verdict(b) == "ok");
    const float value = 3;
    const std::vector<InputArray> inputs{{&value, 4}};
    const auto result = execute(b.program, inputs, {});
    REQUIRE(result.ok());
    REQUIRE(decode_array(DType::kFloat32, result->at(0).bytes)[0] == 3);
}

namespace {

nki::MaskTerm rows_below(std::int64_t n) {
    nki::MaskTerm term;
    term.constant = n - 1;
    term.coefficients[0] = -1;
    return term;
}

}  // namespace

TEST_CASE("arithmetic on an edge tile may compute on leftovers that are never stored") {
    for (const bool by_rows : {true, false}) {
        for (const std::int64_t stored : {100, 101}) {
            ProgramBuilder b;
            const auto in = b.input({128, 256});
            const auto out = b.output({128, 256});
            const auto tile = b.tile(Buffer::kSbuf, 128, 256);
            const auto sum = b.tile(Buffer::kSbuf, 128, 256);
            const auto edge = by_rows ? rows_below : columns_below;
            b.load(tile, in).mask.push_back(edge(100));
            b.memset(b.whole(sum), 0);
            b.add(Opcode::kTensorTensor, b.whole(sum), {b.whole(tile), b.whole(sum)}).op0 =
                AluOp::kAdd;
            const int first = b.program.operations.back().line;
            b.add(Opcode::kCopy, b.whole(tile), {b.whole(sum)});
            b.store(out, tile).mask.push_back(edge(stored));
            REQUIRE(verdict(b) == (stored == 100 ? "ok" : "rejected/uninitialized_read"));
            if (stored == 100) continue;
            // The finding stands where leftovers were read first.
            const auto finding = check_legality(b.program, trn1());
            REQUIRE(finding->line == first);
        }
    }
}

TEST_CASE("a sum over the free axis of an edge tile is good in the rows that were loaded") {
    for (const std::int64_t rows : {100, 101}) {
        ProgramBuilder b;
        const auto in = b.input({128, 256});
        const auto out = b.output({128, 1});
        const auto tile = b.tile(Buffer::kSbuf, 128, 256);
        const auto sum = b.tile(Buffer::kSbuf, 128, 1);
        b.load(tile, in).mask.push_back(rows_below(100));
        auto& reduce = b.add(Opcode::kReduce, b.whole(sum), {b.whole(tile)});
        reduce.op0 = AluOp::kAdd;
        reduce.axes = 2;
        b.store(out, sum).mask.push_back(rows_below(rows));
        REQUIRE(verdict(b) == (rows == 100 ? "ok" : "rejected/uninitialized_read"));
    }
}

TEST_CASE("leftovers in a product reach their row or column, along the contraction everything") {
    // 0: rows of the result, 1: columns, 2: the contraction.
    for (int kind = 0; kind < 3; ++kind) {
        for (const std::int64_t stored : {100, 101}) {
            ProgramBuilder b;
            const auto in = b.input({128, 128});
            const auto out = b.output({128, 128});
            const auto left = b.tile(Buffer::kSbuf, 128, 128);
            const auto right = b.tile(Buffer::kSbuf, 128, 128);
            const auto psum = b.tile(Buffer::kPsum, 128, 128);
            auto& load = b.load(left, in);
            if (kind == 0) load.mask.push_back(columns_below(100));
            if (kind == 2) load.mask.push_back(rows_below(100));
            auto& other = b.load(right, in);
            if (kind == 1) other.mask.push_back(columns_below(100));
            b.add(Opcode::kMatmul, b.whole(psum), {b.whole(left), b.whole(right)});
            b.store(out, psum).mask.push_back(kind == 0 ? rows_below(stored)
                                                        : columns_below(stored));
            REQUIRE(verdict(b) ==
                    (kind < 2 && stored == 100 ? "ok" : "rejected/uninitialized_read"));
        }
    }
}

TEST_CASE("a transpose of leftovers is rejected, a whole write takes them away") {
    for (const bool rewritten : {false, true}) {
        ProgramBuilder b;
        const auto in = b.input({128, 128});
        const auto out = b.output({128, 128});
        const auto tile = b.tile(Buffer::kSbuf, 128, 128);
        const auto copy = b.tile(Buffer::kSbuf, 128, 128);
        const auto psum = b.tile(Buffer::kPsum, 128, 128);
        b.load(tile, in).mask.push_back(rows_below(100));
        b.add(Opcode::kCopy, b.whole(copy), {b.whole(tile)});
        if (rewritten) b.load(copy, in);
        b.add(Opcode::kTranspose, b.whole(psum), {b.whole(copy)});
        b.store(out, psum).mask.push_back(columns_below(100));
        REQUIRE(verdict(b) == (rewritten ? "ok" : "rejected/uninitialized_read"));
    }
}
