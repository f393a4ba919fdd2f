// `horing doctor`: inside a job, tests every pair of ranks whose link the plans use.
#pragma once

namespace ho {

int doctor_command(int argc, const char* const* argv);

}  // namespace ho
