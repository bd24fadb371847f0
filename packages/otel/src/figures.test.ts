import type { InboxFigures } from '@onceward/core/ports'
import { Clock } from '@onceward/testing/adapter'
import { DiagLogLevel, diag } from '@opentelemetry/api'
import { afterEach, expect, test, vi } from 'vitest'
import { figuresReader } from './figures.ts'

const EVERY_MS = 1_000
const figures = { deadLetters: 3 } as unknown as InboxFigures
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

afterEach(() => diag.disable())

/** A reader whose answers the test sets, and how often it asked the database. */
function setUp(answer: () => Promise<InboxFigures | undefined>) {
  const clock = new Clock()
  const asked = vi.fn(answer)
  const read = figuresReader({ figures: asked }, EVERY_MS, clock.runtime)
  return { asked, clock, read }
}

test('the tables are read at most once in the given time', async () => {
  const { asked, clock, read } = setUp(async () => figures)
  expect(await read()).toBe(figures)
  await clock.advance(EVERY_MS - 1)
  expect(await read()).toBe(figures)
  expect(asked).toHaveBeenCalledTimes(1)
  await clock.advance(1)
  expect(await read()).toBe(figures)
  expect(asked).toHaveBeenCalledTimes(2)
  expect(clock.asked.map(({ keepAlive }) => keepAlive)).toEqual([false, false])
})

test('a database that does not answer is asked once, and each reader waits for two seconds', async () => {
  const gate = Promise.withResolvers<InboxFigures>()
  const { asked, clock, read } = setUp(() => gate.promise)
  const late = Promise.all([read(), read()])
  await clock.advance(2_000)
  expect(await late).toEqual([undefined, undefined])
  expect(asked).toHaveBeenCalledTimes(1)
  gate.resolve(figures)
  await turn()
  expect(await read()).toBe(figures)
  expect(asked).toHaveBeenCalledTimes(1)
})

test('a database that fails gives no figures, a line for diagnosis, and is asked again', async () => {
  const debug = vi.fn()
  const nothing = (): undefined => undefined
  const levels = { error: nothing, warn: nothing, info: nothing, verbose: nothing, debug }
  diag.setLogger(levels, DiagLogLevel.DEBUG)
  const down = new Error('down')
  const { asked, read } = setUp(() => Promise.reject(down))
  expect([await read(), await read()]).toEqual([undefined, undefined])
  expect(asked).toHaveBeenCalledTimes(2)
  expect(debug).toHaveBeenCalledWith('onceward: the tables were not read', down)
})
