/*
 * Unit test files share a process, and a test may leave a handler hanging that holds the lock of the process. So each
 * file begins without one. This file imports nothing: `--changed` selects every test whose set-up imports what changed.
 */
Reflect.deleteProperty(globalThis, Symbol.for('onceward.alone'))
