import { createAloneLock } from '@onceward/core'

/*
 * Unit test files share a process, and a test may leave a handler hanging that holds the lock of the process. So each
 * file begins with a new lock.
 */
Object.assign(globalThis, { [Symbol.for('onceward.alone')]: createAloneLock() })
