// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* The provider's spinlocks, with hooks for the actions of another thread. */

#include "fixture.h"

lock_hook before_lock, before_unlock, after_unlock;

int __real_pthread_spin_lock(pthread_spinlock_t *lock);
int __real_pthread_spin_unlock(pthread_spinlock_t *lock);
int __wrap_pthread_spin_lock(pthread_spinlock_t *lock);
int __wrap_pthread_spin_unlock(pthread_spinlock_t *lock);

int __wrap_pthread_spin_lock(pthread_spinlock_t *lock)
{
	if (before_lock)
		before_lock(lock);
	return __real_pthread_spin_lock(lock);
}

int __wrap_pthread_spin_unlock(pthread_spinlock_t *lock)
{
	lock_hook after = after_unlock;
	int err;

	if (before_unlock)
		before_unlock(lock);
	err = __real_pthread_spin_unlock(lock);
	if (after)
		after(lock);
	return err;
}
