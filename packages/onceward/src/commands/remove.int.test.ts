import { until } from '@onceward/testing'
import { expect, test } from 'vitest'
import type { Status } from '../data/status.ts'
import { answer, cli } from '../fixtures/cli.ts'
import { type Operated, operated } from '../fixtures/operated.ts'

const names = async (at: Operated) =>
  (await answer<Status>(['status'], at)).consumers.map(({ name }) => name)

test('remove takes a consumer that is gone out of status and doctor, and it comes back when it starts', async () => {
  await using at = await operated()
  await at.send('a', {})
  await until(async () => {
    const { consumers } = await answer<Status>(['status'], at)
    return consumers[0]?.workers.length === 1
  })
  expect(await cli(['remove', 'billing'], at)).toMatchObject({
    ...{ code: 1, stdout: expect.stringMatching(/workers of it run: \S+:\d+\. Stop them first/) },
  })
  await at.rest()
  await at.pool.query(`
    update onceward.consumers set worker_ended_at = now() - interval '6 min', seen_at = now() - interval '7 min'`)
  expect((await cli(['doctor'], at)).stdout).toMatch(
    /No worker of billing .*\n.*If it was taken away, run `npx onceward remove billing`\./,
  )
  expect(await answer(['remove', 'billing', '--by', 'ana', '--why', 'renamed'], at)).toEqual({
    ...{ consumer: 'billing', kind: 'removed' },
  })
  expect(await names(at)).toEqual([])
  expect((await cli(['doctor'], at)).stdout).not.toContain('billing')
  expect(await cli(['remove', 'billing'], at)).toMatchObject({
    ...{ code: 1, stderr: expect.stringMatching(/No consumer billing .*None has registered/) },
  })
  const { rows } = await at.pool.query('select who, action, why from onceward.audit')
  expect(rows).toEqual([{ who: 'ana', action: 'remove', why: 'renamed' }])
  await using again = await operated(at.url)
  expect(await again.send('a', {})).toMatchObject({ kind: 'ack', by: 'duplicate' })
  expect(again.runs()).toBe(0)
  expect(await names(at)).toEqual(['billing'])
})

test('remove leaves a consumer with dead letters as it is, unless told to leave them', async () => {
  await using at = await operated()
  for (const key of ['a', 'b']) await at.kill(key, 'no')
  await at.rest()
  await at.pool.query("update onceward.consumers set seen_at = now() - interval '3 h'")
  expect(await cli(['remove', 'billing'], at)).toMatchObject({
    ...{ code: 1, stdout: expect.stringMatching(/not removed: 2 dead letters are open\./) },
  })
  expect(await names(at)).toEqual(['billing'])
  expect(await cli(['remove', 'billing', '--leave-events'], at)).toMatchObject({ code: 0 })
  expect(await names(at)).toEqual([])
  // A dead letter is shown until somebody decides about it.
  const { letters } = await answer<{ readonly letters: readonly object[] }>(
    ['dead-letters', 'list'],
    at,
  )
  expect(letters).toHaveLength(2)
})
