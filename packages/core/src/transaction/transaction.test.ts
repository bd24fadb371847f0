import { expect, test } from 'vitest'
import { changedInbox, silent } from '../fixtures/inbox.ts'
import { createShift } from '../fixtures/shift.ts'
import { troubled } from '../fixtures/troubled.ts'
import { createGuard } from '../guard/guard.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'

// Red when only the age of counted claims is checked: the handler of the frozen process runs as attempt 1 although the
// next owner has used up the attempts.
test('a claim that is answered after its deadline does not run, because the next owner may have run the event', async () => {
  const shift = createShift()
  const inbox = memoryInbox()
  const runs: string[] = []
  const common = { consumer: 'billing', logger: silent, runtime: shift.runtime, deadlineMs: 9_000 }
  const successor = createGuard({ ...common, inbox }, () => {
    runs.push('successor')
  })
  const delivery = toDelivery({})
  const frozen = createGuard(
    {
      ...common,
      inbox: changedInbox(inbox, (session) => ({
        begin: async (request) => {
          const begun = await session.begin(request)
          shift.forward(15_000)
          // The server ends transactions that are idle for so long.
          if (begun.kind === 'open') await begun.transaction.rollback()
          await successor.process(delivery)
          return begun
        },
      })),
    },
    () => {
      runs.push('frozen')
    },
  )
  expect(await frozen.process(delivery)).toEqual({ kind: 'ack', by: 'duplicate' })
  expect(runs).toEqual(['successor'])
  await Promise.all([frozen.close(), successor.close()])
})

// Red before: where the server was faster than the guard's timer, the event had failed by a statement timeout that its
// user had never set.
test.each([
  [8_998, { message: 'canceled' }],
  [8_999.5, { code: 'ONCEWARD_DEADLINE_EXCEEDED', cause: { message: 'canceled' } }],
])(
  'a statement that the store cancels after %d ms of a deadline of 9,000 ms',
  async (ms, error) => {
    const { clock, guard } = troubled(
      async () => {
        clock.advance(ms)
        throw new Error('canceled')
      },
      { transaction: () => ({ status: () => 'failed' }) },
      { deadlineMs: 9_000 },
    )
    const settlement = await guard.process(toDelivery('a', { messageId: 'a' }))
    expect(settlement).toMatchObject({ kind: 'defer', reason: 'failed', error })
    await guard.close()
  },
)
