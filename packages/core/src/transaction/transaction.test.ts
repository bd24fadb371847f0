import { expect, test } from 'vitest'
import { changedInbox, silent } from '../fixtures/inbox.ts'
import { createShift } from '../fixtures/shift.ts'
import { createGuard } from '../guard/guard.ts'
import { memoryInbox, toDelivery } from '../memory/index.ts'

// Red when only counted claims are asked for their age: the handler of the frozen process runs as attempt 1 though a
// successor has used up the attempts.
test('a claim that is answered after its deadline is not run: a successor may have had the event', async () => {
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
          // The server ends what says nothing for so long.
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
