#include "trace/trace-hw_tern.h"
