import { expect, test } from 'vitest'
import { onceAborted, stopSignals } from './stop-signals.ts'

/** An `AbortSignal` that counts its listeners. */
function counted() {
  const controller = new AbortController()
  const { signal } = controller
  let listeners = 0
  const { addEventListener, removeEventListener } = signal
  signal.addEventListener = (...given: Parameters<typeof addEventListener>) => {
    listeners += 1
    addEventListener.apply(signal, given)
  }
  signal.removeEventListener = (...given: Parameters<typeof removeEventListener>) => {
    listeners -= 1
    removeEventListener.apply(signal, given)
  }
  return { controller, signal, listeners: () => listeners }
}

test('each of the signals stops, and all who wait hear of it through one listener', () => {
  const [first, second] = [counted(), counted()]
  const signals = stopSignals([undefined, first.signal, second.signal])
  const heard: string[] = []
  signals.whenStopping(() => heard.push('a'))
  signals.whenStopping(() => heard.push('b'))
  expect([first.listeners(), second.listeners()]).toEqual([1, 1])
  expect(signals.isStopping()).toBe(false)
  second.controller.abort()
  expect(signals.isStopping()).toBe(true)
  expect(heard).toEqual(['a', 'b'])
})

test('who unsubscribes hears nothing, and the last one takes the listener away', () => {
  const { controller, listeners, signal } = counted()
  const { whenStopping } = stopSignals([undefined, signal])
  const heard: string[] = []
  const forget = whenStopping(() => heard.push('a'))
  const forgetOther = whenStopping(() => heard.push('b'))
  forget()
  expect(listeners()).toBe(1)
  forgetOther()
  expect(listeners()).toBe(0)
  whenStopping(() => heard.push('c'))
  controller.abort()
  expect(heard).toEqual(['c'])
})

test('who subscribes after the stop hears of it in the next microtask, unless unsubscribed before', async () => {
  const { whenStopping } = stopSignals([AbortSignal.abort()])
  const heard: string[] = []
  whenStopping(() => heard.push('a'))
  whenStopping(() => heard.push('b'))()
  expect(heard).toEqual([])
  await undefined
  expect(heard).toEqual(['a'])
})

test('a call without a limit of its own leaves limits as they are', () => {
  expect(stopSignals([]).bounded(5)).toBe(5)
  expect(stopSignals([], undefined, () => 1).bounded(5)).toBe(1)
})

test('a callback for an abort comes once, at once if it has happened, and can be forgotten', () => {
  let calls = 0
  const call = (): void => {
    calls += 1
  }
  onceAborted(AbortSignal.abort(), call)
  expect(calls).toBe(1)
  const { controller, listeners, signal } = counted()
  const forget = onceAborted(signal, call)
  onceAborted(signal, call)()
  expect(listeners()).toBe(1)
  forget()
  expect(listeners()).toBe(0)
  onceAborted(signal, call)
  controller.abort()
  signal.dispatchEvent(new Event('abort'))
  expect(calls).toBe(2)
  expect(() => onceAborted(undefined, call)()).not.toThrow()
})
