import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import type { EventId, Fingerprint } from '../model/brands.ts'
import type { DoneMark, WriteMarks } from '../model/lease-store.ts'
import { MarkWriter } from './mark-writer.ts'

const mark = (n: number): DoneMark => ({
  id: `event-${n}` as EventId,
  fingerprint: 1n as Fingerprint,
})

function setUp(answer: () => Promise<unknown> = async () => undefined) {
  const clock = new Clock()
  const written: unknown[] = []
  const writing =
    (name: string): WriteMarks =>
    (done, rememberMs) => {
      written.push([name, done.map(({ id }) => id), rememberMs])
      return answer()
    }
  return { clock, written, writing, writer: new MarkWriter(clock.runtime) }
}

test('marks are written together, a tenth of a second after the first one', () => {
  const { clock, writer, writing, written } = setUp()
  const write = writing('history')
  writer.add(mark(1), write, 10)
  clock.advance(99)
  writer.add(mark(2), write, 10)
  expect(written).toEqual([])
  clock.advance(1)
  expect(written).toEqual([['history', ['event-1', 'event-2'], 10]])
  expect(clock.timers).toBe(0)
})

test('each history and each rest of a window gets its own', () => {
  const { clock, writer, writing, written } = setUp()
  const [first, second] = [writing('first'), writing('second')]
  writer.add(mark(1), first, 10)
  writer.add(mark(2), second, 10)
  writer.add(mark(3), first, 5)
  clock.advance(100)
  expect(written).toEqual([
    ['first', ['event-1'], 10],
    ['second', ['event-2'], 10],
    ['first', ['event-3'], 5],
  ])
})

test('many marks do not wait', () => {
  const { writer, writing, written } = setUp()
  const write = writing('history')
  for (let n = 0; n < 4_096; n++) writer.add(mark(n), write, 10)
  expect(written).toHaveLength(1)
})

test('a drain writes what is left, and a store that fails or never answers does not stop it', async () => {
  const failing = setUp(() => Promise.reject(new Error('down')))
  failing.writer.add(mark(1), failing.writing('history'), 10)
  await failing.writer.drain()
  expect(failing.written).toHaveLength(1)
  const hanging = setUp(() => new Promise(() => undefined))
  hanging.writer.add(mark(1), hanging.writing('history'), 10)
  await hanging.clock.until(hanging.writer.drain())
  expect(hanging.written).toHaveLength(1)
})
