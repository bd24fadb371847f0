import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { changedInbox, silent } from '../../fixtures/inbox.ts'
import { never } from '../../fixtures/never.ts'
import { AS_OPTION, BAD, DEADLINE_MS, GOOD_1, GOOD_2, make } from '../../fixtures/user-functions.ts'
import { memoryInbox } from '../../memory/index.ts'
import { createGuard } from '../guard.ts'

// Red before: close() never ended.
test.each(['decode', 'schema', 'eventKey', 'afterCommit', 'handler'] as const)(
  'close() waits for a hanging %s no longer than the deadline',
  async (name) => {
    const { clock, guard } = make(AS_OPTION[name](never))
    const running = guard.process(BAD)
    await turn()
    const startedAtMs = clock.runtime.monotonic()
    await clock.until(guard.close())
    expect(clock.runtime.monotonic() - startedAtMs).toBeLessThanOrEqual(DEADLINE_MS + 1)
    expect(await running).toMatchObject({ kind: 'defer' })
  },
)

// Red before: close() never ended.
test('close() does not wait for a store that never answers', async () => {
  const logged: string[] = []
  const warn = (_: object, message: string): void => void logged.push(message)
  const clock = new Clock()
  const inbox = changedInbox(memoryInbox(), () => ({ begin: never }))
  const common = { consumer: 'billing', deadlineMs: DEADLINE_MS, runtime: clock.runtime }
  const guard = createGuard({ ...common, inbox, logger: { ...silent, warn } }, () => undefined)
  void guard.process(BAD)
  await turn()
  await clock.until(guard.close())
  expect(logged).toEqual([expect.stringMatching(/closed while runs had not ended/)])
})

// Red before: the payload that the first run had changed was committed.
test('a decode that answers differently at the next run fails the attempt', async () => {
  let decoded = 0
  const clock = new Clock()
  const seen: unknown[] = []
  let failures = 0
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox: memoryInbox(), logger: silent, runtime: clock.runtime },
      transaction: 'batch',
      decode: (body) => {
        decoded += 1
        if (decoded > 3) throw new Error('not again')
        return { cents: 100, key: JSON.parse(Buffer.from(body).toString()) as string }
      },
    },
    ({ payload }: { payload: { cents: number; key: string } }) => {
      seen.push(payload.cents)
      payload.cents += 1
      if (payload.key === 'bad' && failures++ === 0) throw new Error('once')
    },
  )
  const settlements = await clock.until(guard.processBatch([GOOD_1, BAD, GOOD_2]))
  expect(new Set(seen)).toEqual(new Set([100]))
  for (const { kind } of settlements) expect(['ack', 'defer']).toContain(kind)
  await clock.until(guard.close())
})
