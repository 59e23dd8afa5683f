# Settings that the engine and the runner share: language, build type and warnings.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

set(TERN_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Werror)
# Tests use macros of GoogleTest that the stricter warnings object to, and name only members that are
# not zero.
set(TERN_TEST_WARNINGS -Wall -Wextra -Wno-missing-field-initializers -Wconversion -Wshadow -Werror)
