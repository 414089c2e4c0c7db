#include "base/thread_role.h"

__thread struct thread_role thread_role;
