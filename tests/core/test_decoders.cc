/*!
 * \file test_decoders.cc
 * \brief Programs survive encoding. From broken programs and texts of fetches, under
 * AddressSanitizer, decoders return valid values or throw std::invalid_argument.
 *
 *     test_decoders SECONDS      goes on for so long, one second by default
 */
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "core/program/fetch_text.h"
#include "core/program/program.h"
#include "core/program/program_tables.h"

namespace {

using tofu::Piece;
using tofu_test::Random;

/*! \brief Decoding and encoding again gives the same data. */
void TryProgram(const std::vector<int64_t>& data) {
  try {
    const tofu::Program program = tofu::DecodeProgram(data.data(), data.size());
    CHECK(tofu::EncodeProgram(program) == data);
    CHECK(tofu::MakeProgramTables(program).node_id.size() == program.nodes.size());
  } catch (const std::invalid_argument&) {
  }
}

/*! \brief Parsed pieces are inside their region, and write the same text. */
void TryText(const std::string& text) {
  const std::vector<int64_t> shape = {6, 4};
  try {
    const std::vector<Piece> pieces = tofu::ParsePieces(text, shape, 3);
    for (const Piece& piece : pieces) {
      for (size_t d = 0; d < shape.size(); ++d) {
        const tofu::Interval& interval = piece.box[d];
        CHECK(0 <= interval.begin && interval.begin <= interval.end && interval.end <= shape[d]);
      }
    }
    const std::string written = tofu::WritePieces(pieces);
    CHECK(tofu::WritePieces(tofu::ParsePieces(written, shape, 3)) == written);
  } catch (const std::invalid_argument&) {
  }
}

tofu::Program DrawProgram(Random* random) {
  tofu::Program program;
  program.num_workers = random->Draw(1, 4);
  program.nodes.resize(random->Draw(1, 5));
  for (tofu::ProgramNode& node : program.nodes) {
    node.kind = static_cast<tofu::NodeKind>(random->Draw(0, 2));
    node.id = random->Draw(0, 100);
    node.worker = random->Draw(0, 3);
    node.phase = random->Draw(0, 2);
    node.set_fill(static_cast<double>(random->Draw(-3, 3)) / 4);
    node.shapes = {{6, 4}};
    node.begins = {{0, random->Draw(-2, 2)}};
    node.inputs.resize(random->Draw(0, 3));
    node.pieces.resize(random->Draw(0, 2));
    for (Piece& piece : node.pieces) piece = {{{0, 6}, {0, 4}}, {{0, {0, 0}}, {1, {0, 2}}}};
  }
  program.outputs.resize(random->Draw(0, 3));
  program.transit.resize(random->Draw(0, 2), {random->Draw(0, 4), 0});
  return program;
}

/*! \brief No field is lost on the way. */
void CheckRoundTrip(const tofu::Program& program) {
  const std::vector<int64_t> data = tofu::EncodeProgram(program);
  const tofu::Program decoded = tofu::DecodeProgram(data.data(), data.size());
  CHECK(decoded.num_workers == program.num_workers);
  CHECK(decoded.nodes.size() == program.nodes.size());
  CHECK(decoded.outputs == program.outputs && decoded.transit == program.transit);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const tofu::ProgramNode &found = decoded.nodes[i], &node = program.nodes[i];
    CHECK(found.kind == node.kind && found.id == node.id && found.worker == node.worker);
    CHECK(found.phase == node.phase && found.fill_bits == node.fill_bits);
    CHECK(found.shapes == node.shapes && found.begins == node.begins);
    CHECK(found.inputs == node.inputs &&
          tofu::WritePieces(found.pieces) == tofu::WritePieces(node.pieces));
  }
}

/*! \brief Change, remove or repeat some elements. */
template <typename Cells, typename Draw>
Cells Break(Cells cells, Random* random, Draw draw_value) {
  for (int64_t changes = random->Draw(1, 4); changes > 0 && !cells.empty(); --changes) {
    const auto place = cells.begin() + random->Draw(0, static_cast<int64_t>(cells.size()) - 1);
    switch (random->Draw(0, 3)) {
      case 0:
        *place = draw_value();
        break;
      case 1:
        cells.erase(place);
        break;
      case 2:
        cells.insert(place, draw_value());
        break;
      default:
        cells.resize(place - cells.begin());
    }
  }
  return cells;
}

void Try(Random* random) {
  const auto draw_word = [random]() -> int64_t {
    const int64_t bits = random->Draw(0, 62);
    return random->Draw(-1, 1) * (int64_t{1} << bits) + random->Draw(-2, 2);
  };
  const tofu::Program program = DrawProgram(random);
  CheckRoundTrip(program);
  TryProgram(Break(tofu::EncodeProgram(program), random, draw_word));
  const std::string letters = "0123456789,;:@+-x \n99";
  const auto draw_letter = [&] { return letters[random->Draw(0, letters.size() - 1)]; };
  const std::string good =
      "0,0:3,4:0@0,0+1@3,0;3,0:3,4:2@9223372036854775800,0;5,3:1,1:1@2147483648,4294967296";
  TryText(Break(good, random, draw_letter));
}

}  // namespace

int main(int argc, char** argv) {
  const std::chrono::seconds limit(argc > 1 ? std::atoi(argv[1]) : 1);
  const auto started = std::chrono::steady_clock::now();
  uint64_t seed = 0;
  while (std::chrono::steady_clock::now() - started < limit) {
    for (int i = 0; i < 1000; ++i) {
      Random random(++seed);
      Try(&random);
    }
  }
  std::printf("%llu broken programs and texts\n", static_cast<unsigned long long>(seed));
  return tofu_test::Finish("decoders");
}
