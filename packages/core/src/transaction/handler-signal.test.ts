import { expect, test } from 'vitest'
import { HandlerSignal } from './handler-signal.ts'

test('a signal that is read before the abort tells its listeners', () => {
  const aborting = new HandlerSignal()
  const { signal } = aborting
  const reasons: unknown[] = []
  signal.addEventListener('abort', () => reasons.push(signal.reason))
  aborting.throwIfAborted()
  aborting.abort('deadline')
  aborting.abort('drain')
  expect(reasons).toEqual(['deadline'])
  expect(aborting.signal).toBe(signal)
})

test('a signal that is read after the abort is aborted already, with the first reason', () => {
  const aborting = new HandlerSignal()
  aborting.abort(new Error('deadline'))
  aborting.abort(new Error('drain'))
  expect(() => aborting.throwIfAborted()).toThrow('deadline')
  expect(aborting.signal.aborted).toBe(true)
  expect(aborting.signal.reason).toEqual(new Error('deadline'))
})
