import { until } from '@onceward/testing'
import { expect, test } from 'vitest'
import type { Status } from '../data/status.ts'
import { answer, cli } from '../fixtures/cli.ts'
import { operated } from '../fixtures/operated.ts'

test('pause stops a running guard, status says who and why, and resume lets it go on', async () => {
  await using at = await operated()
  expect((await at.send('a', {})).kind).toBe('ack')
  const why = 'the bank is down'
  const paused = await cli(['pause', 'billing', '--by', 'ana', '--why', why], at)
  expect(paused).toMatchObject({ code: 0, stdout: expect.stringMatching(/^billing is paused\./) })
  let n = 0
  const kind = async (): Promise<string> => (await at.send(`b-${n++}`, {})).kind
  await until(async () => (await kind()) === 'defer')
  const runs = at.runs()
  expect(await at.send('c', {})).toMatchObject({ kind: 'defer', cause: 'paused' })
  expect(at.runs()).toBe(runs)
  const { consumers } = await answer<Status>(['status'], at)
  expect(consumers[0]?.paused).toEqual({
    ...{ source: 'operator', by: 'ana', why, untilMs: null },
    sinceMs: expect.any(Number),
  })
  expect((await cli(['status'], at)).stdout).toMatch(
    /billing is paused by ana since \S+Z .*: the bank is down\. End it with `npx onceward resume billing`\./,
  )
  expect(await answer(['resume', 'billing'], at)).toEqual({
    ...{ consumer: 'billing', paused: false, wasPaused: true },
  })
  await until(async () => (await kind()) === 'ack')
  expect((await cli(['resume', 'billing'], at)).stdout).toMatch(/was not paused/)
})

test('pause takes a span or a time in the future, and a consumer that has registered', async () => {
  await using at = await operated()
  await at.send('a', {})
  const { until: end } = await answer<{ until: string }>(['pause', 'billing', '--until', '2h'], at)
  const leftMs = Date.parse(end) - Date.now()
  expect(leftMs).toBeGreaterThan(7_000_000)
  expect(leftMs).toBeLessThanOrEqual(7_200_000)
  const refused = await cli(['pause', 'biling'], at)
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/No consumer biling .*Known: billing\./),
  })
  for (const given of ['2020-01-01T00:00:00Z', 'soon']) {
    expect(await cli(['pause', 'billing', '--until', given], at)).toMatchObject({ code: 2 })
  }
})
