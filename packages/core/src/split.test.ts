import { expect, test } from 'vitest'
import { CommitUnknownError } from './errors.ts'
import { changedInbox, silent } from './fixtures/inbox.ts'
import { createShift } from './fixtures/shift.ts'
import { createGuard } from './guard.ts'
import { memoryInbox, toDelivery } from './memory.ts'
import type { Begun } from './ports.ts'

/** Its commit gets no answer and has not arrived. */
function withoutAnswer(begun: Begun<undefined>): Begun<undefined> {
  if (begun.kind !== 'open') return begun
  const { transaction } = begun
  const commit = async () => {
    await transaction.rollback()
    return { kind: 'unknown', error: new CommitUnknownError('no answer') } as const
  }
  return {
    ...begun,
    transaction: {
      tx: undefined,
      status: () => transaction.status(),
      revoke: (error) => transaction.revoke(error),
      commit,
      rollback: () => transaction.rollback(),
      rollbackAndFail: (failures) => transaction.rollbackAndFail(failures),
      retract: (events) => transaction.retract(events),
    },
  }
}

// Red when the parts of a split go on by themselves: a2 commits before a1, whose row is to be read again.
test('a part of a split does not overtake one of its lane whose commit is unknown', async () => {
  const { runtime } = createShift()
  const done: string[] = []
  const runs: string[] = []
  let begins = 0
  const inbox = changedInbox(memoryInbox(), (session) => ({
    begin: async (request) => {
      begins += 1
      const begun = await session.begin(request)
      // The first holds both, the second is a1 alone.
      return begins === 2 ? withoutAnswer(begun) : begun
    },
  }))
  const guard = createGuard(
    { consumer: 'billing', inbox, logger: silent, runtime, transaction: 'batch' },
    ({ payload }) => {
      runs.push(String(payload))
      if (runs.length === 2) throw new Error('a2 fails in company')
      done.push(String(payload))
    },
  )
  const lane = ['a1', 'a2'].map((name) => ({
    ...toDelivery(name, { orderingKey: 'a', messageId: name }),
    redelivered: true,
  }))
  expect(await guard.processBatch(lane)).toEqual(Array(2).fill({ kind: 'ack', by: 'processed' }))
  // In company, alone without an answer, and again before its follower.
  expect(runs).toEqual(['a1', 'a2', 'a1', 'a1', 'a2'])
  await guard.close()
})
