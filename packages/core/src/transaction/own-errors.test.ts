import { expect, test } from 'vitest'
import { troubled } from '../fixtures/troubled.ts'
import { toDelivery } from '../memory/index.ts'
import { DeadlineExceededError } from '../model/errors.ts'
import type { BeginRequest } from '../model/inbox.ts'

const named = (name: string) => toDelivery(name, { messageId: name })
const sizeOf = ({ claim }: BeginRequest) => (claim.kind === 'none' ? 0 : claim.events.length)
const processed = { kind: 'ack', by: 'processed' } as const

// Red when the error is swallowed: the call never ended, and the transaction held its rows.
test('an error of the transaction handle itself defers the event and rolls the transaction back', async () => {
  const defect = new TypeError('a defect of the store')
  let rollbacks = 0
  const { clock, guard } = troubled(() => undefined, {
    transaction: (transaction, n) =>
      n > 1
        ? {}
        : {
            status: () => {
              throw defect
            },
            rollback: () => {
              rollbacks += 1
              return transaction.rollback()
            },
          },
  })
  const settlement = await guard.process(named('a'))
  expect(settlement).toMatchObject({ kind: 'defer', reason: 'store-down', error: defect })
  expect(rollbacks).toBe(1)
  await guard.close()
  expect(clock.timers).toBe(0)
})

// Red when the code of the error decides: a foreign server that is down stopped the consumer, and its event never ended.
test('an error with the code of a store that is down is a failure of the handler if its connection lives', async () => {
  const error = Object.assign(new Error('the foreign server is down'), { code: '08006' })
  let runs = 0
  const { guard } = troubled(
    () => {
      runs += 1
      throw error
    },
    {
      transaction: () => ({ status: () => 'failed' }),
      session: () => ({ diagnose: () => 'store' }),
    },
    { retry: { attempts: 1 } },
  )
  expect(await guard.process(named('a'))).toMatchObject({ kind: 'dead-letter', error })
  expect(runs).toBe(1)
  await guard.close()
})

/** The server ends the first transaction during the handler of this event, because its handlers took too long. */
function endedByServer(name: string) {
  const late = new DeadlineExceededError('too late')
  let current: unknown
  const rig = troubled(
    ({ payload }) => {
      current = payload
    },
    {
      transaction: (transaction, n) =>
        n > 1
          ? {}
          : {
              status: () => (current === name ? 'broken' : transaction.status()),
              outOfTime: () => late,
            },
    },
    { transaction: 'batch' },
  )
  return { ...rig, late }
}

test('a connection that the server ended for its time counts as a failure of the only event', async () => {
  const { guard, late } = endedByServer('a')
  const settlement = await guard.process(named('a'))
  expect(settlement).toMatchObject({ kind: 'defer', reason: 'failed', error: late })
  await guard.close()
})

// Red when the event that ran at that moment is blamed: the others may have used up the time.
test('a connection that the server ended for its time says nothing about one of several events', async () => {
  const { asked, guard } = endedByServer('b')
  expect(await guard.processBatch(['a', 'b', 'c'].map(named))).toEqual(Array(3).fill(processed))
  expect(asked.begins.map(sizeOf)).toEqual([3, 2, 1])
  await guard.close()
})
